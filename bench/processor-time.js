/** The processor time of other processes on this computer, from Linux's /proc. */
import { readdirSync, readFileSync } from "node:fs";

/**
 * The microseconds that a process and its children have run. Undefined where the computer does not tell. A server like
 * Postgres, whose processes have one thread each, is counted in full.
 *
 * @param {number} pid
 */
export function familyMicroseconds(pid) {
  try {
    const family = [pid, ...childrenOf(pid)];
    return family.reduce((sum, each) => sum + runNanoseconds(each), 0) / 1_000;
  } catch {
    return undefined;
  }
}

/** The unit of the times in /proc/PID/stat. */
const TICK_US = 10_000;

/**
 * The microseconds that all threads of a process have run. Undefined where the computer does not tell.
 *
 * @param {number} pid
 */
export function processMicroseconds(pid) {
  try {
    // The name of the program, in parentheses, may have spaces.
    const [, fields = ""] = /^.*\) (.*)$/s.exec(readFileSync(`/proc/${pid}/stat`, "utf8")) ?? [];
    const [user, system] = fields.split(" ").slice(11);
    return (Number(user) + Number(system)) * TICK_US;
  } catch {
    return undefined;
  }
}

/** @param {number} pid */
export function parentOf(pid) {
  return Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
}

/** @param {number} pid */
function childrenOf(pid) {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((each) => {
      try {
        return parentOf(each) === pid;
      } catch {
        // It ended since the folder was read.
        return false;
      }
    });
}

/** @param {number} pid */
function runNanoseconds(pid) {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[0]);
  } catch {
    return 0;
  }
}
