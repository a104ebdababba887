/** Lints Kubernetes manifests with Monokle: its pod security standards, its practices, and the references between resources. */
import {
  AnnotationSuppressor,
  DefaultPluginLoader,
  DisabledFixer,
  FingerprintSuppressor,
  MonokleValidator,
  ResourceParser,
  SchemaLoader,
} from "@monokle/validation";
import { parseAllDocuments } from "yaml";

/** Those that need no download. */
const PLUGINS = { "pod-security-standards": true, practices: true, "resource-links": true };

/** `files` are the texts of manifests by name. Returns each finding as its rule and its message, sorted. */
export async function kubernetesFindings(files: Readonly<Record<string, string>>): Promise<string[]> {
  const validator = new MonokleValidator({
    loader: new DefaultPluginLoader(),
    parser: new ResourceParser(),
    schemaLoader: new SchemaLoader(),
    suppressors: [new AnnotationSuppressor(), new FingerprintSuppressor()],
    fixer: new DisabledFixer(),
  });
  await validator.preload({ plugins: PLUGINS });
  if (Object.keys(validator.rules).length !== Object.keys(PLUGINS).length)
    throw new Error(`only ${Object.keys(validator.rules).join(", ")} could be loaded`);
  const { runs } = await validator.validate({ resources: Object.entries(files).flatMap(toResources) });
  return runs
    .flatMap(({ results }) => results.map(({ ruleId, message }) => `${ruleId} ${message.text}`))
    .sort();
}

function toResources([file, text]: [file: string, text: string]) {
  return parseAllDocuments(text).map((document, place) => {
    const content = document.toJS();
    const { apiVersion, kind, metadata } = content;
    const where = {
      id: `${file}#${place}`,
      fileId: file,
      filePath: file,
      fileOffset: document.range?.[0] ?? 0,
    };
    return { ...where, name: metadata.name, namespace: metadata.namespace, apiVersion, kind, content, text };
  });
}
