import type { AgentEvent } from '../../core/contracts/index.ts';
import type { CallingClient } from './ask-client.ts';

/** A client may give up on a call that says nothing for a minute. */
const heartbeatMs = 15_000;
/** Between two notifications of text that streams. */
const textMs = 500;
const maxLength = 120;

/** Tells a client what a turn does, where it asked for that: tools as they start and end, the text as it grows, and that there is life. */
export class TurnProgress {
  readonly #client: CallingClient;
  readonly #heartbeat: NodeJS.Timeout | undefined;
  #count = 0;
  #text = '';
  #textAt = 0;

  constructor(client: CallingClient) {
    this.#client = client;
    if (client.meta.progressToken !== undefined)
      this.#heartbeat = setInterval(() => this.#send('still at work'), heartbeatMs);
  }

  show(event: AgentEvent): void {
    if (this.#heartbeat === undefined) return;
    if (event.kind === 'artifact-update') return this.#grow(event);
    const message = messageOf(event);
    if (message !== undefined) this.#send(message);
  }

  close(): void {
    clearInterval(this.#heartbeat);
  }

  #grow({ append, artifact }: Extract<AgentEvent, { kind: 'artifact-update' }>): void {
    const text = artifact.parts.map((part) => (part.kind === 'text' ? part.text : '')).join('');
    this.#text = (append ? this.#text + text : text).slice(-maxLength);
    const now = performance.now();
    if (this.#text.trim() === '' || now - this.#textAt < textMs) return;
    this.#textAt = now;
    this.#send(this.#text);
  }

  /** A client that is gone needs to know nothing. */
  #send(message: string): void {
    this.#heartbeat?.refresh();
    const { progressToken } = this.#client.meta;
    if (progressToken === undefined) return;
    const params = { progressToken, progress: ++this.#count, message };
    this.#client.notify({ method: 'notifications/progress', params }).catch(() => {});
  }
}

/** Names of tools, never what they are given, or give. */
function messageOf(event: AgentEvent): string | undefined {
  switch (event.kind) {
    case 'internal:tool-start':
      return `${event.toolName} runs`;
    case 'internal:tool-complete':
      return event.success ? `${event.toolName} is done` : `${event.toolName} failed`;
    case 'internal:iteration-start':
      return event.iteration === 1 ? 'begins' : `step ${event.iteration}`;
    default:
      return undefined;
  }
}
