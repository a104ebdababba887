/** Publishing with an id: the stream takes it once within its duplicate window, and a consumer does it once for as long as it remembers. */
import { type Key, sendingKey } from "../../core/key.ts";

/** What is used of what `jetstream(connection)` makes. */
export interface NatsPublisher<Data, Options, Ack> {
  publish(subject: string, data: Data, options?: Options): Promise<Ack>;
}

/**
 * `id` is the same whenever the same message is sent: `attempt.deriveKey("shipped")`, say. A stream that had it within its
 * duplicate window answers `duplicate: true`, and that is success. `options` are those of `js.publish`.
 */
export async function publishOnce<Data, Options extends { readonly msgID?: string }, Ack>(
  js: NatsPublisher<Data, Options, Ack>,
  subject: string,
  data: Data,
  { id, ...options }: Omit<Options, "msgID"> & { readonly id: string | Key },
): Promise<Ack> {
  const msgID = sendingKey(id, "the id of the message");
  return js.publish(subject, data, { ...options, msgID } as unknown as Options);
}
