/** Runs other programs and collects their output, so that only a failed step prints it. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("..", import.meta.url));

/**
 * Runs a program to its end. If it cannot be started or runs longer than `timeoutMs`, the code is 1 and the output says why.
 *
 * @param {string} program
 * @param {readonly string[]} args
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, timeoutMs?: number }} [options]
 * @returns {Promise<{ code: number, stdout: string, output: string }>}
 */
export function run(program, args, { cwd = ROOT, env = process.env, timeoutMs = 600_000 } = {}) {
  return new Promise((resolve) => {
    const child = spawn(program, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"], timeout: timeoutMs });
    let stdout = "";
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (text) => {
      stdout += text;
      output += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text) => {
      output += text;
    });
    child.on("error", (error) => resolve({ code: 1, stdout, output: `${program}: ${error.message}` }));
    child.on("close", (code, signal) => {
      if (code !== null) return resolve({ code, stdout, output });
      resolve({
        code: 1,
        stdout,
        output: `${output}\n${program} was ended by ${signal} (limit ${timeoutMs} ms)`,
      });
    });
  });
}

/**
 * Runs a tool that the workspace installed, with this Node.
 *
 * @param {string} path of the tool's script under node_modules
 * @param {readonly string[]} args
 * @param {Parameters<typeof run>[2]} [options]
 */
export function runTool(path, args, options) {
  return run(process.execPath, [`${ROOT}node_modules/${path}`, ...args], options);
}
