/** Loads a database driver that the application has installed; none is a dependency of this package. */
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { NevertwiceError } from "../../core/errors.ts";
import { importModule } from "../../platform/import-module.ts";

/**
 * Imports the module `name`. Throws `driver-missing`, with the package to `install`, if it is not installed.
 * @throws `driver-missing`
 */
export async function importDriver<T>(name: string, install: string, neededBy: string): Promise<T> {
  try {
    return await importInstalled<T>(name);
  } catch (error) {
    throw isNotFound(error, name)
      ? missingError(`${neededBy} needs ${install}: npm install ${install}`, error)
      : error;
  }
}

function missingError(message: string, cause: unknown): NevertwiceError {
  return new NevertwiceError("driver-missing", message, { cause });
}

async function importInstalled<T>(name: string): Promise<T> {
  try {
    return await importModule<T>(name);
  } catch (error) {
    if (!isNotFound(error, name)) throw error;
    return await importModule<T>(locateFrom(applicationFile(), name));
  }
}

/** With a strict installer, a package can import only its own dependencies; the application can import the driver. */
function applicationFile(): string {
  return join(process.cwd(), "application.js");
}

function locateFrom(importer: string, name: string): string {
  return pathToFileURL(createRequire(importer).resolve(name)).href;
}

/** The URL of an installed module that `importDriver` finds. Importing the URL in another thread loads the same copy of it. */
export function locateDriver(name: string): string | undefined {
  for (const importer of [import.meta.url, applicationFile()])
    try {
      return locateFrom(importer, name);
    } catch {
      // It is not installed for this importer.
    }
  return undefined;
}

/** Whether this module itself is missing, and not one of its dependencies. */
function isNotFound(error: unknown, name: string): boolean {
  const { code, message } = error as NodeJS.ErrnoException;
  const isMissing = code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND";
  const [scope = "", rest = ""] = name.split("/");
  return isMissing && message.includes(`'${scope.startsWith("@") ? `${scope}/${rest}` : scope}`);
}
