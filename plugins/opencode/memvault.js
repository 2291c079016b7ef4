// Made by `make docs` from memvault's own plugin; do not edit.
// Whatever goes wrong in here, OpenCode goes on without it.
import { spawn } from "node:child_process"

const COMMAND = ["memvault", "hook", "EVENT", "--for", "opencode"]
const LONGEST = 6000

const ask = (event, given, cwd) =>
  new Promise((resolve) => {
    try {
      const [program, ...words] = COMMAND.map((word) => (word === "EVENT" ? event : word))
      const child = spawn(program, words, { cwd, stdio: ["pipe", "pipe", "ignore"] })
      const timer = setTimeout(() => child.kill("SIGKILL"), LONGEST)
      const done = (text) => (clearTimeout(timer), resolve(text.trim()))
      let said = ""
      child.stdout.on("data", (piece) => (said += piece))
      child.on("error", () => done(""))
      child.on("close", () => done(said))
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(given))
    } catch {
      resolve("")
    }
  })

export const Memvault = async ({ directory }) => {
  const begun = new Map()
  const recalled = new Map()
  return {
    "chat.message": async (input, output) => {
      const session = input.sessionID
      const parts = output.parts.filter((part) => part.type === "text" && !part.synthetic)
      const prompt = parts.map((part) => part.text).join("\n")
      const start = begun.get(session) ?? ask("session-start", { cwd: directory }, directory)
      const [known, fits] = await Promise.all([start, ask("prompt", { prompt }, directory)])
      begun.set(session, known)
      recalled.set(session, fits)
    },
    "experimental.chat.system.transform": async (input, output) => {
      for (const text of [begun.get(input.sessionID), recalled.get(input.sessionID)])
        if (text) output.system.push(text)
    },
    "experimental.session.compacting": async (input, output) => {
      const text = await ask("pre-compact", {}, directory)
      if (text) output.context.push(text)
    },
  }
}
