// Keys, live preview, and a prompt before unsaved text is lost. Without scripts, the pages have buttons.
"use strict";
(() => {
  const form = document.querySelector("form.editor");
  const fields = () => new URLSearchParams(new FormData(form)).toString();
  const saved = form && !("unsaved" in form.dataset) ? fields() : "";
  let leaving = false;
  const isUnsaved = () => form && !leaving && fields() !== saved;
  window.addEventListener("beforeunload", (event) => {
    if (isUnsaved()) event.preventDefault();
  });
  const script = document.currentScript.src;
  form?.addEventListener("submit", async (event) => {
    if (leaving) return;
    event.preventDefault();
    const answer = await fetch(script, { method: "HEAD", cache: "no-store" }).catch(() => null);
    if (!answer?.ok) return alert("memvault web has stopped, so nothing was saved. Copy your text.");
    leaving = true;
    form.requestSubmit(event.submitter);
  });
  document.addEventListener("keydown", (event) => {
    if (event.isComposing || event.altKey || document.querySelector("dialog[open]")) return;
    const control = event.ctrlKey || event.metaKey;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (form && control && (event.key === "s" || event.key === "Enter")) {
      event.preventDefault();
      form.requestSubmit(form.elements.save);
    } else if (form && event.key === "Escape" && (!isUnsaved() || confirm("Discard your changes?"))) {
      leaving = true;
      location.assign(form.dataset.cancel);
    } else if (!control && !typing && (event.key === "e" || event.key === "n")) {
      document.querySelector(`a[data-key=${event.key}]`)?.click();
      event.preventDefault();
    }
  });
  if (!form) return;
  let latest = 0;
  let timer = 0;
  let delay = 250;
  const show = async () => {
    const [number, start] = [++latest, performance.now()];
    const body = new URLSearchParams(new FormData(form));
    const answer = await fetch(form.dataset.preview, { method: "POST", body });
    const html = await answer.text();
    delay = 250 + 2 * (performance.now() - start); // Longer texts take longer to render.
    if (answer.ok && number === latest) document.getElementById("preview").innerHTML = html;
  };
  form.elements.text.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(show, delay);
  });
  form.elements.preview.hidden = true;
  show();
})();
