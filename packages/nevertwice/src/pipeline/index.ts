/** `nevertwice/pipeline`: networks of nodes from manifests, each message once through each node that has a key. */
export type { Requested } from "./asking.ts";
export { type Definition, definePipeline, loadPipeline } from "./definition.ts";
export type { NetworkDescription, NodeDescription } from "./describe.ts";
export type { Effects } from "./effects.ts";
export type { PipelineGuard } from "./environment.ts";
export { type ManifestProblem, manifestProblems, problemText } from "./manifest/problem.ts";
export type { NetworkManifest, NodeManifest } from "./manifest/shape.ts";
export type { Failure, Phase, PushOutcome } from "./message.ts";
export type {
  Arrival,
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
export type { OutHandler, OutMessage } from "./network.ts";
export type { PipelineEvent } from "./pipeline-event.ts";
export type { PipelineOptions, PushOptions, RequestOptions } from "./pipeline-options.ts";
export type { Health, NodeHealth, Pipeline } from "./run.ts";
