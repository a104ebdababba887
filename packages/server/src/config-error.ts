/** What is wrong with a setting, where it was set, and what it should be. */
export class ConfigError extends Error {
  constructor(name: string, value: unknown, wanted: string, options?: ErrorOptions) {
    const shown = value === undefined ? "missing" : JSON.stringify(value);
    super(`${name} is ${shown}; it must be ${wanted}.`, options);
    this.name = "ConfigError";
  }
}
