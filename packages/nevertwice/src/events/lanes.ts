/** Groups messages into lanes. The messages of one lane are handled in order, and lanes run in parallel. */
export function groupIntoLanes<Message>(
  messages: readonly Message[],
  laneName: (message: Message) => unknown,
): Message[][] {
  const lanes = new Map<unknown, Message[]>();
  for (const message of messages) {
    const name = laneName(message);
    const lane = lanes.get(name);
    if (lane === undefined) lanes.set(name, [message]);
    else lane.push(message);
  }
  return [...lanes.values()];
}
