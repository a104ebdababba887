/** Tests that the files which ship with the server pass the linters of their platforms, and that the image is built and run. */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, type TestContext, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { IS_FULL } from "../../nevertwice/test/scale/sizes.ts";
import { SETTINGS, variableName } from "../src/server-settings.ts";
import { ignoring, instructionsIn, stagesIn } from "./packaging/dockerfile.ts";
import { buildImage, whyNoImage } from "./packaging/image.ts";
import { kubernetesFindings } from "./packaging/kubernetes-linter.ts";
import { actionProblems, dockerfileProblems, publishProblems } from "./packaging/pins.ts";
import { composeProblems, type Manifest, manifestProblems } from "./packaging/rules.ts";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const DEPLOY = join(ROOT, "packages/server/deploy");
const { version } = createRequire(import.meta.url)("@nevertwice/server/package.json") as { version: string };
const VARIABLES = Object.keys(SETTINGS).map(variableName);

const run = promisify(execFile);
const read = (name: string) => readFile(join(DEPLOY, name), "utf8");

/** Skips the test where a program of the system is missing. */
async function runSystem({ skip }: TestContext, program: string, args: readonly string[]) {
  try {
    return await run(program, args);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return skip(`${program} is not installed`);
    throw error;
  }
}

async function manifests(): Promise<readonly Manifest[]> {
  const names = await readdir(join(DEPLOY, "kubernetes"));
  const documents = await Promise.all(
    names.map(async (name) => parseAllDocuments(await read(`kubernetes/${name}`))),
  );
  return documents.flat().map((document) => document.toJS() as Manifest);
}

test("dockerfilelint accepts the Dockerfile and reports a bad one", async () => {
  const lint = (file: string) =>
    run(process.execPath, [
      join(ROOT, "node_modules/dockerfilelint/bin/dockerfilelint"),
      "--output",
      "json",
      file,
    ]);
  expect(JSON.parse((await lint(join(DEPLOY, "Dockerfile"))).stdout).totalIssues).toBe(0);
  const { stdout } = (await lint(join(ROOT, "packages/server/test/packaging/bad.Dockerfile")).catch(
    (error) => error,
  )) as { stdout: string };
  expect(JSON.parse(stdout).totalIssues).toBeGreaterThan(0);
});

test("the image has a fixed base version, does not run as root, and sets only known variables", async () => {
  const stages = stagesIn(await read("Dockerfile"));
  for (const { base } of stages) expect(base).toMatch(/^node:\d+-/);
  const last = stages.at(-1)?.instructions ?? [];
  expect(last.findLast(({ name }) => name === "USER")?.text).toBe("node");
  const set = [...(await read("Dockerfile")).matchAll(/\b(NEVERTWICE_\w+)=/g)].map(([, name]) => name);
  expect(set.length).toBeGreaterThan(0);
  for (const name of set) expect(VARIABLES).toContain(name);
});

test("every base image of the Dockerfile is pinned by its digest", async () => {
  expect(dockerfileProblems(await read("Dockerfile"))).toEqual([]);
});

test("the check reports each image that is named by its tag", async () => {
  const bad = await readFile(join(ROOT, "packages/server/test/packaging/bad.Dockerfile"), "utf8");
  expect(dockerfileProblems(bad)).toEqual([
    "node:latest is not pinned by its digest",
    "busybox:1.37 is not pinned by its digest",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the Dockerfile's variable.
    "${BASE} is not pinned by its digest",
  ]);
});

const WORKFLOWS = join(ROOT, ".github/workflows");

test("every action of every workflow is pinned by its commit and names its version", async () => {
  const names = await readdir(WORKFLOWS);
  expect(names.sort()).toEqual(["ci.yml", "docs.yml", "publish.yml"]);
  for (const name of names)
    expect([name, actionProblems(await readFile(join(WORKFLOWS, name), "utf8"))]).toEqual([name, []]);
});

test("a tag publishes the library, then the server, after the versions and the tests", async () => {
  expect(publishProblems(await readFile(join(WORKFLOWS, "publish.yml"), "utf8"))).toEqual([]);
});

test("the check reports each fault of a bad workflow", async () => {
  const bad = await readFile(join(ROOT, "packages/server/test/packaging/bad.workflow.yml"), "utf8");
  expect([...actionProblems(bad), ...publishProblems(bad)]).toEqual([
    "someone/workflows/.github/workflows/build.yml@main is not pinned by its commit",
    "actions/checkout@v5 is not pinned by its commit",
    "actions/setup-node@a0853c2 is not pinned by its commit",
    "actions/cache@0123456789012345678901234567890123456789 does not say which version it is",
    "it publishes packages/server",
    "it does not compare the versions with the tag first",
    "it does not run the tests first",
  ]);
});

test("no built or private file of the workspace is sent to the image build", async () => {
  const isIgnored = ignoring(await read("Dockerfile.dockerignore"));
  for (const path of [
    "node_modules",
    "packages/server/node_modules/x",
    "packages/server/dist",
    ".git",
    "nevertwice.db",
  ])
    expect([path, isIgnored(path)]).toEqual([path, true]);
  for (const path of ["package.json", "packages/server/src/server.ts", "packages/nevertwice/src/index.ts"])
    expect([path, isIgnored(path)]).toEqual([path, false]);
});

test("dclint accepts the compose file and reports a bad one", async () => {
  const lint = (file: string) =>
    run(process.execPath, [join(ROOT, "node_modules/dclint/bin/dclint.cjs"), "--max-warnings", "0", file]);
  await lint(join(DEPLOY, "compose.yaml"));
  await expect(lint(join(ROOT, "packages/server/test/packaging/bad.compose.yaml"))).rejects.toThrow();
});

test("the compose file follows the container rules", async () => {
  expect(composeProblems(parse(await read("compose.yaml")), VARIABLES)).toEqual([]);
});

test("the check reports each fault of a bad compose file", async () => {
  const bad = parse(await readFile(join(ROOT, "packages/server/test/packaging/bad.compose.yaml"), "utf8"));
  expect(composeProblems(bad, VARIABLES)).toEqual([
    "cache: redis:latest is no named version",
    "cache: nothing says when it is well",
    "nevertwice: its root can be written to",
    "nevertwice: it keeps capabilities",
    "nevertwice: it may gain privileges",
    "nevertwice: 4747:4747 is open to the network",
    "nevertwice: there is no setting NEVERTWICE_SERVER_SOTRE",
    "nevertwice: NEVERTWICE_SERVER_ACCESS_TOKEN is written in the file",
  ]);
});

test("the Kubernetes manifests follow the container rules, and name this version", async () => {
  const all = await manifests();
  expect(all.map(({ kind }) => kind).sort()).toEqual(["Deployment", "PodDisruptionBudget", "Service"]);
  expect(all.flatMap((manifest) => manifestProblems(manifest, VARIABLES))).toEqual([]);
  expect(JSON.stringify(all)).toContain(`nevertwice:${version}`);
});

test("Monokle accepts the Kubernetes manifests and reports a bad one", async () => {
  const names = await readdir(join(DEPLOY, "kubernetes"));
  const files = await Promise.all(names.map(async (name) => [name, await read(`kubernetes/${name}`)]));
  expect(await kubernetesFindings(Object.fromEntries(files))).toEqual([]);
  const bad = await readFile(join(ROOT, "packages/server/test/packaging/bad.deployment.yaml"), "utf8");
  expect(await kubernetesFindings({ "bad.yaml": bad })).toEqual([
    "KBP102 Require a read-only root file system",
    "KBP103 Require default capabilities to be dropped",
    "KBP104 Disallow running with a low user ID",
    "KBP105 Disallow running with a low group ID",
  ]);
});

test("the Kubernetes service and disruption budget select the pods of the deployment", async () => {
  const all = await manifests();
  const of = (kind: string) => all.find((manifest) => manifest.kind === kind)?.spec;
  const labels = of("Deployment")?.template?.metadata?.labels;
  expect(of("Deployment")?.selector).toEqual({ matchLabels: labels });
  expect(of("Service")?.selector).toEqual(labels);
  expect(of("PodDisruptionBudget")?.selector).toEqual({ matchLabels: labels });
  const ports = of("Deployment")?.template?.spec.containers[0]?.ports?.map(({ name }) => name);
  for (const { targetPort } of of("Service")?.ports ?? []) expect(ports).toContain(targetPort);
});

test("the check reports each fault of a bad deployment", async () => {
  const [bad] = parseAllDocuments(
    await readFile(join(ROOT, "packages/server/test/packaging/bad.deployment.yaml"), "utf8"),
  );
  expect(manifestProblems(bad?.toJS() as Manifest, VARIABLES)).toEqual([
    "it may run as root",
    "it has no seccomp profile",
    "it is given the service account's token",
    "nevertwice: nevertwice is no named version",
    "nevertwice: its root can be written to",
    "nevertwice: it may gain privileges",
    "nevertwice: it keeps capabilities",
    "nevertwice: livenessProbe does not ask /healthz",
    "nevertwice: readinessProbe does not ask /readyz",
    "nevertwice: its memory has no limit",
    "nevertwice: its requests are not said",
    "nevertwice: there is no setting NEVERTWICE_SERVER_SOTRE",
    "nevertwice: NEVERTWICE_SERVER_ACCESS_TOKEN is written in the file",
  ]);
});

test("systemd accepts the unit and rates its exposure as low", async (context) => {
  const unit = join(DEPLOY, "nevertwice.service");
  const { stderr } = await runSystem(context, "systemd-analyze", ["verify", unit]);
  expect(stderr.split("\n").filter((line) => line.includes("nevertwice.service"))).toEqual([]);
  await runSystem(context, "systemd-analyze", ["security", "--offline=true", "--threshold=20", unit]);
});

test("systemd reports a misspelt unit, and the exposure of an open one", async (context) => {
  const bad = join(ROOT, "packages/server/test/packaging/bad.service");
  const { stderr } = await runSystem(context, "systemd-analyze", ["verify", bad]);
  expect(stderr).toMatch(/Unknown key.* 'Dynamicuser'/);
  const security = runSystem(context, "systemd-analyze", [
    "security",
    "--offline=true",
    "--threshold=20",
    bad,
  ]);
  await expect(security).rejects.toThrow();
});

test("the stop timeout of the unit is longer than the drain time of the server", async () => {
  const stopSeconds = Number(/^TimeoutStopSec=(\d+)$/m.exec(await read("nevertwice.service"))?.[1]);
  expect(stopSeconds * 1_000).toBeGreaterThan(SETTINGS.drain.default);
});

test("the parser reads every instruction of a Dockerfile", () => {
  expect(
    instructionsIn('# a\nFROM x AS y\nCOPY --from=y a b\nHEALTHCHECK --interval=1s \\\n  CMD ["z"]\n'),
  ).toEqual([
    { name: "FROM", flags: {}, text: "x AS y" },
    { name: "COPY", flags: { from: "y" }, text: "a b" },
    { name: "HEALTHCHECK", flags: { interval: "1s" }, text: 'CMD ["z"]' },
  ]);
});

/** The files that the documentation names, and those in the folders that it names. */
async function documentedFiles(): Promise<readonly string[]> {
  const page = await readFile(join(ROOT, "docs/server.md"), "utf8");
  const named = new Set(
    [...page.matchAll(/server\/(deploy\/[\w./-]*[\w-])/g)].map(([, name]) => name as string),
  );
  const files = await Promise.all(
    [...named].map(async (name) => {
      const at = join(ROOT, "packages/server", name);
      if ((await stat(at)).isFile()) return [name];
      return (await readdir(at)).map((file) => `${name}/${file}`);
    }),
  );
  return files.flat();
}

test("the documentation of the server names every file that it ships for running it", async () => {
  const shipped = await readdir(DEPLOY, { recursive: true, withFileTypes: true });
  const names = shipped.filter((file) => file.isFile()).map((file) => file.name);
  const documented = (await documentedFiles()).map((name) => basename(name));
  expect(documented.sort()).toEqual(names.filter((name) => name !== "Dockerfile.dockerignore").sort());
});

const TOKEN = "a-token-of-the-packaging-test-0123";
const ASK = (path: string) =>
  `fetch("http://127.0.0.1:4747${path}").then(async (answer) => console.log(answer.status, await answer.text()))`;

test("the package, installed into an empty folder, has its command, its pages and its own readme", {
  timeout: 120_000,
}, async ({ onTestFinished }) => {
  const home = await mkdtemp(join(tmpdir(), "nevertwice-server-"));
  onTestFinished(() => rm(home, { recursive: true, force: true }));
  // Without a new build: other tests read the current one.
  const pack = ["pack", "--silent", "--ignore-scripts", "--pack-destination", home];
  await run("npm", [...pack, "-w", "packages/nevertwice", "-w", "packages/server"], { cwd: ROOT });
  await writeFile(join(home, "package.json"), '{ "private": true }');
  const tarballs = (await readdir(home)).filter((name) => name.endsWith(".tgz")).map((name) => `./${name}`);
  expect(tarballs).toHaveLength(2);
  const flags = ["--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund"];
  await run("npm", ["install", ...flags, ...tarballs], { cwd: home });
  const commands = ["nevertwice", "@nevertwice/server"].map((name) =>
    join(home, "node_modules", name, "bin/nevertwice.js"),
  );
  // npm links one of the two commands; both work.
  for (const command of [join(home, "node_modules/.bin/nevertwice"), ...commands]) {
    const { stdout } = await run(process.execPath, [command, "version"], { cwd: home });
    expect([command, stdout]).toEqual([command, `${version}\n`]);
  }
  const installed = join(home, "node_modules/@nevertwice/server");
  expect(await readdir(join(installed, "dist/dashboard"))).toContain("index.html");
  expect(await readFile(join(installed, "README.md"), "utf8")).toContain("npm install @nevertwice/server");
  for (const name of await documentedFiles())
    expect([name, await readFile(join(installed, name), "utf8")]).toEqual([
      name,
      await readFile(join(ROOT, "packages/server", name), "utf8"),
    ]);
});

// It installs all dependencies into an empty root, which takes minutes, so it is part of the campaign only.
if (IS_FULL)
  test("the steps of the image work in an empty root, and the result is small and runs without root on a read-only file system", {
    timeout: 300_000,
  }, async ({ skip, onTestFinished }) => {
    const reason = whyNoImage();
    if (reason !== undefined) return skip(reason);
    const into = await mkdtemp(join(tmpdir(), "nevertwice-image-"));
    onTestFinished(() => rm(into, { recursive: true, force: true }));
    const image = await buildImage({ dockerfile: join(DEPLOY, "Dockerfile"), context: ROOT, into });

    const modules = await readdir(join(image.root, "app/node_modules"));
    expect(modules).toContain("fastify");
    for (const tool of ["typescript", "vitest", "vite", "hono"]) expect(modules).not.toContain(tool);
    const { stdout: size } = await run("du", ["-sm", join(image.root, "app")]);
    expect(Number.parseInt(size, 10)).toBeLessThan(80);

    const refused = image.start({});
    const [said, [code]] = await Promise.all([textOf(refused.stderr), once(refused, "exit")]);
    expect(said).toContain("access token");
    expect(code).toBeGreaterThan(0);

    const container = image.start({ NEVERTWICE_SERVER_ACCESS_TOKEN: TOKEN });
    onTestFinished(() => void container.kill("SIGKILL"));
    const logged = textOf(container.stdout);
    const complained = textOf(container.stderr);
    const isWell = async () => {
      expect(container.exitCode, await (container.exitCode === null ? "" : complained)).toBeNull();
      await image.exec(container, image.healthCheck);
    };
    await expect.poll(isWell, { timeout: 60_000, interval: 500 }).toBeUndefined();
    expect((await image.exec(container, ["node", "-e", ASK("/readyz")])).stdout).toMatch(/^200 .*ready/);
    expect((await image.exec(container, ["node", "-e", ASK("/metrics")])).stdout).toMatch(/^401 /);
    const { stdout: page } = await image.exec(container, ["node", "-e", ASK("/")]);
    const { stdout: status } = await run("cat", [`/proc/${container.pid}/status`]);
    expect(status).toMatch(/^Uid:\t1000\t/m);
    expect(await readdir(join(image.root, "data"))).toContain("nevertwice.db");
    await expect(image.exec(container, ["touch", "/app/written"])).rejects.toThrow(/Read-only file system/);

    container.kill("SIGTERM");
    expect(await once(container, "exit")).toEqual([0, null]);
    expect(`${await logged}${await complained}`).not.toContain(TOKEN);
    expect(page).toMatch(/^200 <!doctype html>/i);
  });

async function textOf(stream: NodeJS.ReadableStream | null): Promise<string> {
  let text = "";
  for await (const chunk of stream ?? []) text += chunk;
  return text;
}
