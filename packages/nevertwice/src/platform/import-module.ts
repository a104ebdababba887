/** Imports modules of the application: database drivers, and the code that manifests name. */
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

/** Node's errors for code that runs in a context of its own, without dynamic import, as Jest runs tests. */
const NO_DYNAMIC_IMPORT: readonly unknown[] = [
  "ERR_VM_DYNAMIC_IMPORT_CALLBACK_MISSING",
  "ERR_VM_DYNAMIC_IMPORT_CALLBACK_MISSING_FLAG",
];

/** Imports a package by its name, or a file by its URL. Requires it where nothing can be imported. */
export async function importModule<T>(specifier: string): Promise<T> {
  try {
    return await import(/* @vite-ignore */ specifier);
  } catch (error) {
    if (!NO_DYNAMIC_IMPORT.includes((error as NodeJS.ErrnoException).code)) throw error;
    return requireModule<T>(specifier);
  }
}

/** Has the shape that `import` gives a CommonJS module. */
function requireModule<T>(specifier: string): T {
  const path = specifier.startsWith("file:") ? fileURLToPath(specifier) : specifier;
  const module = createRequire(import.meta.url)(path);
  return { ...module, default: module };
}
