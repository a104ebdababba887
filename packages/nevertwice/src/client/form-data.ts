/**
 * Encodes forms as multipart/form-data, as the HTML standard does. Platforms choose a random boundary each time, so the
 * same form never has the same bytes. Here the boundary depends on the content only: the same form has the same bytes at
 * every try, at every click and after a restart, so a server that compares bytes recognises it.
 */

export interface EncodedForm {
  readonly body: Blob;
  readonly contentType: string;
}

const LINE_END = "\r\n";

export async function encodeForm(form: FormData): Promise<EncodedForm> {
  const parts: Blob[] = [];
  for (const [name, value] of form) {
    const opening = `Content-Disposition: form-data; name="${escaped(normalised(name))}"`;
    if (typeof value === "string") {
      parts.push(new Blob([opening, LINE_END, LINE_END, normalised(value)]));
      continue;
    }
    const file = `; filename="${escaped(value.name)}"${LINE_END}Content-Type: ${value.type || "application/octet-stream"}`;
    parts.push(new Blob([opening, file, LINE_END, LINE_END, value]));
  }
  const boundary = await absentBoundary(parts);
  const lines = parts.flatMap((part) => [`--${boundary}${LINE_END}`, part, LINE_END]);
  return {
    body: new Blob([...lines, `--${boundary}--${LINE_END}`]),
    contentType: `multipart/form-data; boundary=${boundary}`,
  };
}

/** The first of our boundaries that no part contains. A boundary inside a part would end the part early. */
async function absentBoundary(parts: readonly Blob[]): Promise<string> {
  const texts = await Promise.all(parts.map(async (part) => latin1(await part.arrayBuffer())));
  for (let number = 0; ; number++) {
    // Without the hyphen at the end, boundary 1 would be a prefix of boundary 10.
    const boundary = `nevertwice-form-boundary-${number}-`;
    if (!texts.some((text) => text.includes(boundary))) return boundary;
  }
}

function latin1(bytes: ArrayBuffer): string {
  return new TextDecoder("latin1").decode(bytes);
}

function normalised(text: string): string {
  return text.replace(/\r\n|\r|\n/g, LINE_END);
}

function escaped(text: string): string {
  return text.replaceAll("\n", "%0A").replaceAll("\r", "%0D").replaceAll('"', "%22");
}
