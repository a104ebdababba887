/** The rules for containers: no root, a read-only file system, a fixed version, no secret in a file. */

interface Compose {
  readonly services: Readonly<Record<string, ComposeService>>;
}

interface ComposeService {
  readonly image?: string;
  readonly build?: unknown;
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly ports?: readonly string[];
  readonly healthcheck?: unknown;
  readonly environment?: Readonly<Record<string, string>>;
}

const NAMED_VERSION = /^[^:]+:(?!latest$)[\w.-]*\d[\w.-]*$/;

/** Services that we build follow all rules; others only those for dependencies. Our image has its own health check. */
export function composeProblems({ services }: Compose, settings: readonly string[]): string[] {
  return Object.entries(services).flatMap(([name, service]) => {
    const problems = service.build === undefined ? theirProblems(service) : ourProblems(service, settings);
    return problems.map((problem) => `${name}: ${problem}`);
  });
}

function theirProblems({ image = "", healthcheck }: ComposeService): string[] {
  return [
    ...found(!NAMED_VERSION.test(image), `${image} is no named version`),
    ...found(healthcheck === undefined, "nothing says when it is well"),
  ];
}

function ourProblems(service: ComposeService, settings: readonly string[]): string[] {
  const { read_only, cap_drop = [], security_opt = [], ports = [], environment = {} } = service;
  return [
    ...found(read_only !== true, "its root can be written to"),
    ...found(!cap_drop.includes("ALL"), "it keeps capabilities"),
    ...found(!security_opt.includes("no-new-privileges:true"), "it may gain privileges"),
    ...ports.filter((port) => !port.startsWith("127.0.0.1:")).map((port) => `${port} is open to the network`),
    ...settingProblems(Object.entries(environment), settings, (value) => value.startsWith("${")),
  ];
}

export interface Manifest {
  readonly kind: string;
  readonly spec: {
    readonly selector?: object;
    readonly ports?: readonly { readonly targetPort: string }[];
    readonly template?: {
      readonly metadata?: { readonly labels?: object };
      readonly spec: PodSpec;
    };
  };
}

interface PodSpec {
  readonly automountServiceAccountToken?: boolean;
  readonly securityContext?: {
    readonly runAsNonRoot?: boolean;
    readonly seccompProfile?: { readonly type: string };
  };
  readonly containers: readonly Container[];
}

interface Probe {
  readonly httpGet?: { readonly path?: string };
}

interface Container {
  readonly name: string;
  readonly image: string;
  readonly ports?: readonly { readonly name: string }[];
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
  readonly livenessProbe?: Probe;
  readonly readinessProbe?: Probe;
  readonly resources?: {
    readonly requests?: { readonly cpu?: string; readonly memory?: string };
    readonly limits?: { readonly memory?: string };
  };
  readonly securityContext?: {
    readonly readOnlyRootFilesystem?: boolean;
    readonly allowPrivilegeEscalation?: boolean;
    readonly capabilities?: { readonly drop?: readonly string[] };
  };
}

/** Only a deployment has pods; other kinds have no problems. */
export function manifestProblems({ spec }: Manifest, settings: readonly string[]): string[] {
  const pod = spec.template?.spec;
  if (pod === undefined) return [];
  const { automountServiceAccountToken, securityContext, containers } = pod;
  return [
    ...found(securityContext?.runAsNonRoot !== true, "it may run as root"),
    ...found(securityContext?.seccompProfile?.type !== "RuntimeDefault", "it has no seccomp profile"),
    ...found(automountServiceAccountToken !== false, "it is given the service account's token"),
    ...containers.flatMap((container) =>
      containerProblems(container, settings).map((problem) => `${container.name}: ${problem}`),
    ),
  ];
}

function containerProblems(container: Container, settings: readonly string[]): string[] {
  const { image, livenessProbe, readinessProbe, resources, securityContext, env = [] } = container;
  const { requests = {}, limits } = resources ?? {};
  return [
    ...found(!NAMED_VERSION.test(image), `${image} is no named version`),
    ...found(securityContext?.readOnlyRootFilesystem !== true, "its root can be written to"),
    ...found(securityContext?.allowPrivilegeEscalation !== false, "it may gain privileges"),
    ...found(!securityContext?.capabilities?.drop?.includes("ALL"), "it keeps capabilities"),
    ...found(livenessProbe?.httpGet?.path !== "/healthz", "livenessProbe does not ask /healthz"),
    ...found(readinessProbe?.httpGet?.path !== "/readyz", "readinessProbe does not ask /readyz"),
    ...found(limits?.memory === undefined, "its memory has no limit"),
    ...found(requests.cpu === undefined || requests.memory === undefined, "its requests are not said"),
    ...settingProblems(
      env.map(({ name, value = "" }) => [name, value]),
      settings,
      (value) => value === "",
    ),
  ];
}

/** A variable of ours must be a setting, and a token must not be in the file. */
function settingProblems(
  variables: readonly (readonly [name: string, value: string])[],
  settings: readonly string[],
  isFromElsewhere: (value: string) => boolean,
): string[] {
  return variables
    .filter(([name]) => name.startsWith("NEVERTWICE_"))
    .flatMap(([name, value]) => [
      ...found(!settings.includes(name), `there is no setting ${name}`),
      ...found(name.endsWith("_TOKEN") && !isFromElsewhere(value), `${name} is written in the file`),
    ]);
}

function found(is: boolean, problem: string): string[] {
  return is ? [problem] : [];
}
