/** Loads a database driver that the application has installed; none is a dependency of this package. */
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { NevertwiceError } from "../../core/errors.ts";

/** The module called `name`, or `driver-missing` with what to install (the package, unless said otherwise). */
export async function importDriver<T>(name: string, install: string, neededBy: string): Promise<T> {
  try {
    return await importInstalled<T>(name);
  } catch (error) {
    throw isNotFound(error, name)
      ? missing(`${neededBy} needs ${install}: npm install ${install}`, error)
      : error;
  }
}

function missing(message: string, cause: unknown): NevertwiceError {
  return new NevertwiceError("driver-missing", message, { cause });
}

async function importInstalled<T>(name: string): Promise<T> {
  try {
    return await import(name);
  } catch (error) {
    if (!isNotFound(error, name)) throw error;
    // Strict installers let a package see its own dependencies only; the application sees the driver.
    const fromApplication = createRequire(join(process.cwd(), "application.js"));
    return await import(pathToFileURL(fromApplication.resolve(name)).href);
  }
}

/** That this module is not there, not one that it needs itself. */
function isNotFound(error: unknown, name: string): boolean {
  const { code, message } = error as NodeJS.ErrnoException;
  const isMissing = code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND";
  const [scope = "", rest = ""] = name.split("/");
  return isMissing && message.includes(`'${scope.startsWith("@") ? `${scope}/${rest}` : scope}`);
}
