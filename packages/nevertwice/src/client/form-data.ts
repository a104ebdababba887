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
    const [file, content] =
      typeof value === "string" ? ["", normalised(value)] : [describeFile(value), value];
    parts.push(new Blob([opening, file, LINE_END, LINE_END, content]));
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
  // Bytes that are not UTF-8 are replaced, but none that a boundary consists of.
  const text = await new Blob([...parts]).text();
  for (let number = 0; ; number++) {
    // Without the hyphen at the end, boundary 1 would be a prefix of boundary 10.
    const boundary = `nevertwice-form-boundary-${number}-`;
    if (!text.includes(boundary)) return boundary;
  }
}

function describeFile({ name, type }: File): string {
  return `; filename="${escaped(name)}"${LINE_END}Content-Type: ${type || "application/octet-stream"}`;
}

function normalised(text: string): string {
  return text.replace(/\r\n|\r|\n/g, LINE_END);
}

function escaped(text: string): string {
  return text.replace(/[\n\r"]/g, encodeURIComponent);
}
