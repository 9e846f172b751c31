import type { EventStore, JSONRPCMessage } from '@modelcontextprotocol/server';

interface KeptEvent {
  readonly id: string;
  readonly streamId: string;
  readonly message: JSONRPCMessage;
  readonly length: number;
}

const maxEvents = 1_000;
const maxLength = 16_777_216;

/**
 * What a client was sent lately, so that one whose connection broke gets the rest. Holds the newest 1,000 messages of a session, and no
 * more than 16 M characters of them beside the newest.
 */
export class SessionEvents implements EventStore {
  readonly #events: KeptEvent[] = [];
  #count = 0;
  #length = 0;

  async storeEvent(streamId: string, message: JSONRPCMessage): Promise<string> {
    const id = `${++this.#count}-${streamId}`;
    const { length } = JSON.stringify(message);
    this.#events.push({ id, streamId, message, length });
    this.#length += length;
    while (this.#events.length > 1 && (this.#events.length > maxEvents || this.#length > maxLength))
      this.#length -= this.#events.shift()?.length ?? 0;
    return id;
  }

  /** None where the client has all that its stream will ever bring: such a stream is not opened again. */
  async getStreamIdForEventId(id: string): Promise<string | undefined> {
    const streamId = streamOf(id);
    const newest = this.#events.findLast((event) => event.streamId === streamId);
    const isOver = newest?.id === id && ('result' in newest.message || 'error' in newest.message);
    return isOver ? undefined : streamId;
  }

  async replayEventsAfter(
    lastId: string,
    { send }: { readonly send: (id: string, message: JSONRPCMessage) => Promise<void> },
  ): Promise<string> {
    const streamId = streamOf(lastId) ?? '';
    const last = Number.parseInt(lastId, 10);
    for (const event of [...this.#events]) {
      // The first event of a stream is empty: it only gives its id.
      const isSaid = 'jsonrpc' in event.message;
      if (isSaid && event.streamId === streamId && Number.parseInt(event.id, 10) > last)
        await send(event.id, event.message);
    }
    return streamId;
  }
}

function streamOf(id: string): string | undefined {
  return /^\d+-(.+)$/.exec(id)?.[1];
}
