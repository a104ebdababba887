/** Publishes a message with an id. The stream stores it once within its duplicate window, and a consumer processes it once within its retention. */
import { type Key, sendingKey } from "../../core/key.ts";

/** The part of what `jetstream(connection)` returns that is used here. */
export interface NatsPublisher<Data, Options, Ack> {
  publish(subject: string, data: Data, options?: Options): Promise<Ack>;
}

/**
 * `id` must be the same whenever the same message is sent, for example `attempt.deriveKey("shipped")`. If the stream stored
 * the id within its duplicate window, it returns `duplicate: true`, which is success. `options` are those of `js.publish`.
 * @throws `key-invalid`, `key-missing`
 */
export async function publishOnce<
  Data,
  Options extends {
    /** It is set by this function, so it cannot be given. */
    readonly msgID?: string;
  },
  Ack,
>(
  js: NatsPublisher<Data, Options, Ack>,
  subject: string,
  data: Data,
  {
    id,
    ...options
  }: Omit<Options, "msgID"> & {
    /** The id of the message: the same whenever the same message is published. */
    readonly id: string | Key;
  },
): Promise<Ack> {
  const msgID = sendingKey(id, "the id of the message");
  return js.publish(subject, data, { ...options, msgID } as unknown as Options);
}
