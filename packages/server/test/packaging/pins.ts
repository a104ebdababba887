/** Checks that everything a build downloads is pinned by digest: a tag can move to other content, a digest cannot. */
import { parse } from "yaml";
import { stagesIn } from "./dockerfile.ts";

const DIGEST = /@sha256:[0-9a-f]{64}$/;
const COMMIT = /^[\w.-]+\/[\w./-]+@[0-9a-f]{40}$/;

/** Base images, and images that files are copied from. */
export function dockerfileProblems(dockerfile: string): string[] {
  const names = new Set<string>();
  return stagesIn(dockerfile).flatMap(({ base, name, instructions }, index) => {
    const taken = [base, ...instructions.flatMap(({ flags }) => flags.from ?? [])];
    const problems = taken
      .filter((image) => !names.has(image) && !DIGEST.test(image))
      .map((image) => `${image} is not pinned by its digest`);
    names.add(String(index));
    if (name !== undefined) names.add(name);
    return problems;
  });
}

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly "working-directory"?: string;
}

interface Workflow {
  readonly jobs: Readonly<Record<string, { readonly uses?: string; readonly steps?: readonly Step[] }>>;
}

/** Every action, and every workflow that is called; those of this repository need no pin. */
export function actionProblems(text: string): string[] {
  const jobs = Object.values((parse(text) as Workflow).jobs);
  const used = jobs.flatMap(({ uses, steps = [] }) => [uses, ...steps.map((step) => step.uses)]);
  return used
    .filter((action) => action !== undefined)
    .filter((action) => !action.startsWith("./"))
    .flatMap((action) => {
      if (!COMMIT.test(action)) return [`${action} is not pinned by its commit`];
      const isNamed = text.includes(`${action} # v`);
      return isNamed ? [] : [`${action} does not say which version it is`];
    });
}

/** The packages to publish, in this order: the server needs its library. */
const PACKAGES = ["packages/nevertwice", "packages/server"];

export function publishProblems(text: string): string[] {
  const steps = Object.values((parse(text) as Workflow).jobs).flatMap((job) => job.steps ?? []);
  const runs = (words: string) => (step: Step) => step.run?.includes(words) === true;
  const published = steps.filter(runs("npm publish")).map((step) => step["working-directory"]);
  const first = steps.findIndex(runs("npm publish"));
  const isBefore = (words: string) => {
    const at = steps.findIndex(runs(words));
    return at !== -1 && at < first;
  };
  return [
    ...(published.join() === PACKAGES.join()
      ? []
      : [`it publishes ${published.join(", then ") || "nothing"}`]),
    ...(isBefore("node scripts/release.js") ? [] : ["it does not compare the versions with the tag first"]),
    ...(isBefore(".ci/run") ? [] : ["it does not run the tests first"]),
  ];
}
