/**
 * Forms as bytes (multipart/form-data, as the HTML standard encodes it). Platforms draw a new boundary at random each
 * time, so that one form never is the same bytes twice. Here the boundary follows from the content: the same form is
 * the same bytes at every try, at every click and after a restart, which a server that compares bytes can recognise.
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

/** The first of our boundaries that no part contains: a form cannot hold what would end one of its parts early. */
async function absentBoundary(parts: readonly Blob[]): Promise<string> {
  const texts = await Promise.all(parts.map(async (part) => latin1(await part.arrayBuffer())));
  for (let number = 0; ; number++) {
    // The hyphen at the end keeps 1 from being the beginning of 10.
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
