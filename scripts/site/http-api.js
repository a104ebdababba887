/** Writes the reference of the HTTP API from its OpenAPI document, so that it says what the server does. */

/** @typedef {Readonly<Record<string, unknown>>} Json */
/** @typedef {{ name: string, in: string, required?: boolean, description?: string, schema?: Json }} Parameter */
/** @typedef {{ description?: string, content?: Readonly<Record<string, { schema?: Json }>> }} Answer */
/** @typedef {{ operationId: string, summary: string, description?: string, tags: readonly string[], parameters?: readonly Parameter[], requestBody?: { required?: boolean, content: Readonly<Record<string, { schema?: Json }>> }, responses: Readonly<Record<string, Answer>> }} Operation */
/** @typedef {{ info: { version: string }, tags: readonly { name: string, description: string }[], paths: Readonly<Record<string, Readonly<Record<string, Operation>>>> }} Document */

/** @param {Document} document */
export function httpApiMarkdown(document) {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  );
  const sections = document.tags.map(({ name, description }) => {
    const own = operations.filter(({ operation }) => operation.tags.includes(name));
    return [`## ${name}`, description, ...own.map(operationText)].join("\n\n");
  });
  return `${[
    "# HTTP API: every operation",
    "Made from the OpenAPI document that the server serves at `/openapi.json`. [The HTTP API](./server-api.md) has examples and explains claims, events and decisions; [errors](./errors.md) explains each code.",
    ...sections,
  ].join("\n\n")}\n`;
}

/** @param {{ path: string, method: string, operation: Operation }} found */
function operationText({ path, method, operation }) {
  const { summary, description, parameters = [], requestBody, responses } = operation;
  const body = Object.values(requestBody?.content ?? {})[0]?.schema;
  return [
    `### \`${method} ${path}\``,
    [summary, description ?? ""]
      .filter((text) => text !== "")
      .map(sentence)
      .map(plain)
      .join(" "),
    ...(parameters.length === 0 ? [] : [parameterTable(parameters)]),
    ...(body === undefined
      ? []
      : [`Body${requestBody?.required === false ? ", optional" : ""}:`, fieldTable(body)]),
    answerTable(responses),
  ].join("\n\n");
}

/** @param {readonly Parameter[]} parameters */
function parameterTable(parameters) {
  const rows = parameters.map(({ name, in: place, required, description = "", schema = {} }) =>
    row([
      `\`${name}\``,
      `${place}${required === true ? ", required" : ""}`,
      kindOf(schema),
      plain(description),
    ]),
  );
  return table(["parameter", "in", "type", "what it is"], rows);
}

/** @param {Json} schema */
function fieldTable(schema) {
  const fields = /** @type {Readonly<Record<string, Json>>} */ (schema.properties ?? {});
  const required = /** @type {readonly string[]} */ (schema.required ?? []);
  const rows = Object.entries(fields).map(([name, field]) =>
    row([
      `\`${name}\`${required.includes(name) ? ", required" : ""}`,
      kindOf(field),
      plain(String(field.description ?? "")),
    ]),
  );
  return rows.length === 0 ? kindOf(schema) : table(["field", "type", "what it is"], rows);
}

/** @param {Readonly<Record<string, Answer>>} responses */
function answerTable(responses) {
  const rows = Object.entries(responses).map(([status, { description = "", content = {} }]) => {
    const schema = Object.values(content)[0]?.schema;
    const fields = Object.keys(/** @type {Json} */ (schema?.properties ?? {})).map((name) => `\`${name}\``);
    return row([status, plain(description), fields.join(", ")]);
  });
  return table(["status", "when", "fields"], rows);
}

/**
 * @param {Json} schema
 * @returns {string}
 */
function kindOf(schema) {
  const values = /** @type {readonly unknown[] | undefined} */ (schema.enum);
  if (values !== undefined) return values.map((value) => `\`${JSON.stringify(value)}\``).join(" or ");
  if (schema.const !== undefined) return `\`${JSON.stringify(schema.const)}\``;
  const kinds = /** @type {readonly Json[] | undefined} */ (schema.oneOf ?? schema.anyOf);
  if (kinds !== undefined) return [...new Set(kinds.map(kindOf))].join(" or ");
  if (schema.type === "array") return `list of ${kindOf(/** @type {Json} */ (schema.items ?? {}))}`;
  return schema.type === undefined ? "any JSON" : [schema.type].flat().join(" or ");
}

/**
 * @param {readonly string[]} heads
 * @param {readonly string[]} rows
 */
function table(heads, rows) {
  return [row(heads), row(heads.map(() => "---")), ...rows].join("\n");
}

/** @param {readonly string[]} cells */
function row(cells) {
  return `| ${cells.map((cell) => cell.replace(/(?<!\\)\|/g, "\\|").replaceAll("\n", " ")).join(" | ")} |`;
}

/** @param {string} text */
function sentence(text) {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/**
 * The descriptions are plain text, in which angle brackets are not markup.
 *
 * @param {string} text
 */
function plain(text) {
  return text.replaceAll("<", "&lt;");
}
