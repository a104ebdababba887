/** `nevertwice/pipeline`: networks of nodes, read from manifests. Each message passes each node that has a key once. */
export { COVERAGE_GROUPS, type CoverageGroup, measureCoverage } from "./coverage/coverage.ts";
export { type CoverageFact, recordCoverage } from "./coverage/coverage-facts.ts";
export { type Definition, definePipeline, loadPipeline } from "./definition.ts";
export type { NetworkDescription, NodeDescription } from "./description.ts";
export type { Effects } from "./effects.ts";
export { type LintFinding, type LintReport, lintPipeline } from "./lint/lint.ts";
export type { NetworkManifest, NodeManifest } from "./manifest/manifest.ts";
export { type ManifestProblem, manifestProblems, problemText } from "./manifest/problem.ts";
export type { Failure, Phase, PushOutcome } from "./message-outcome.ts";
export type {
  Arrival,
  CoreContext,
  Drop,
  Emit,
  NetworkModel,
  NodeModel,
  Pulled,
  Pulls,
  Reply,
  Returned,
  ShellContext,
  SourceContext,
} from "./model.ts";
export type { PipelineGuard } from "./network-context.ts";
export type { Requested } from "./network-request.ts";
export type { Health, NodeHealth, Pipeline } from "./pipeline.ts";
export type { PipelineEvent } from "./pipeline-event.ts";
export type { PipelineOptions, PushOptions, RequestOptions } from "./pipeline-options.ts";
export type { OutHandler, OutMessage } from "./routes.ts";
