/** The smoke program as a test of Jest, in CommonJS: everything is required, and nothing can be imported dynamically. */
import { readFile, writeFile } from "node:fs/promises";
import { rolldown } from "rolldown";
import { ROOT, run } from "../command.js";

const NAMES = { program: "promises.cjs", test: "promises.test.cjs", count: "promises.txt" };

/** Jest reads the package as it is built: this is no place for a compiler. */
const SETTINGS = JSON.stringify({ transform: {}, testMatch: [`**/${NAMES.test}`], testTimeout: 60_000 });

const TEST = `const { writeFileSync } = require("node:fs");
const { keepPromises } = require("./${NAMES.program}");

test("every promise is kept", async () => {
  writeFileSync(__dirname + "/${NAMES.count}", String(await keepPromises()));
});
`;

/**
 * @param {string} jest the path of its program
 * @param {string} folder where it is installed
 * @returns {Promise<import("./runtimes.js").Found>}
 */
export async function smokeInJest(jest, folder) {
  await writeFile(`${folder}/${NAMES.program}`, await bundleProgram());
  await writeFile(`${folder}/${NAMES.test}`, TEST);
  await writeFile(`${folder}/${NAMES.count}`, "0");
  const { code, output } = await run(process.execPath, [jest, "--rootDir", folder, "--config", SETTINGS]);
  const count = Number(await readFile(`${folder}/${NAMES.count}`, "utf8"));
  return code === 0 && count > 0 ? { cell: `${count} promises` } : { cell: "FAILED", report: output };
}

/** The program requires the package and Hono as an application does. */
async function bundleProgram() {
  const build = await rolldown({
    input: `${ROOT}scripts/smoke/promises.js`,
    external: /^(?![./])/,
    platform: "node",
    logLevel: "silent",
  });
  const { output } = await build.generate({ format: "cjs", codeSplitting: false });
  await build.close();
  return output[0].code;
}
