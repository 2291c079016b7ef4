// The force layout, in a worker, or in the page where files cannot start workers.
import defaults from "graphology-layout-forceatlas2/defaults";
import iterate from "graphology-layout-forceatlas2/iterate";

/** Run `rounds` rounds of ForceAtlas2 on the arrays of `graphToByteArrays`, in place. */
function run(settings, nodes, edges, rounds) {
  for (let round = 0; round < rounds; round++) iterate({ ...defaults, ...settings }, nodes, edges);
}

if (globalThis.document) {
  globalThis.memvaultLayout = run;
} else {
  globalThis.onmessage = ({ data: { settings, nodes, edges, rounds, seconds } }) => {
    const end = Date.now() + seconds * 1000;
    const step = Math.max(1, Math.min(10, Math.round(20_000 / (nodes.length / 10))));
    for (let done = 0; done < rounds && Date.now() < end; done += step) {
      run(settings, nodes, edges, step);
      globalThis.postMessage({ nodes: nodes.slice(), done: false });
    }
    globalThis.postMessage({ nodes, done: true });
  };
}
