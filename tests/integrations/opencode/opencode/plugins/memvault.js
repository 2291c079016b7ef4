// written by memvault setup; memvault setup opencode --remove takes it away.
// OpenCode must continue if anything here fails.
import { spawn } from "node:child_process"

const COMMAND = ["memvault", "hook", "EVENT", "--for", "opencode", "--vault", "my notes"]
const ACTS = false
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

// Memories are data, so they are added to the user's message as a separate part, never to the
// system prompt, which a model obeys.
export const Memvault = async ({ directory }) => {
  const begun = new Set()
  const given = new Map()
  return {
    event: async ({ event }) => {
      if (event.type === "session.compacted") begun.delete(event.properties.sessionID)
    },
    "chat.message": async (input, output) => {
      const session = input.sessionID
      const parts = output.parts.filter((part) => part.type === "text" && !part.synthetic)
      const prompt = parts.map((part) => part.text).join("\n")
      const given = { cwd: directory, session_id: session }
      // The prompt hook depends on the record of the session start.
      const start = begun.has(session) ? "" : await ask("session-start", given, directory)
      begun.add(session)
      const found = await ask("prompt", { ...given, prompt }, directory)
      const text = [start, found].filter(Boolean).join("\n\n")
      const last = output.parts.at(-1)
      // OpenCode sorts parts by id; this id sorts after the user's parts.
      if (text && last)
        output.parts.push({
          id: `${last.id}m`,
          sessionID: session,
          messageID: output.message.id,
          type: "text",
          text,
          synthetic: true,
        })
    },
    "tool.execute.before": async (input, output) => {
      if (ACTS) given.set(input.callID, output.args)
    },
    "tool.execute.after": async (input, output) => {
      if (!ACTS) return
      const tool_input = input.args ?? given.get(input.callID)
      given.delete(input.callID)
      const tool_response = { exit_code: output.metadata?.exit ?? 0, output: output.output }
      const event = { session_id: input.sessionID, tool_name: input.tool, tool_input, tool_response }
      const text = await ask("after-tool", event, directory)
      if (text) output.output = `${output.output}\n\n${text}`
    },
    "experimental.session.compacting": async (input, output) => {
      const text = await ask("pre-compact", { session_id: input.sessionID }, directory)
      if (text) output.context.push(text)
    },
  }
}
