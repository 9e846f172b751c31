import { type AgentEvent, partsText, tailOf } from '../../core/contracts/index.ts';
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
  #cursor: string | undefined;

  constructor(client: CallingClient, cursor: string | undefined) {
    this.#client = client;
    this.#cursor = cursor;
    if (client.meta.progressToken !== undefined)
      this.#heartbeat = setInterval(() => this.#send('still at work'), heartbeatMs);
  }

  /** That of the last event that was shown, or would have been. */
  get cursor(): string | undefined {
    return this.#cursor;
  }

  show(event: AgentEvent): void {
    this.#cursor = event.cursor ?? this.#cursor;
    if (this.#heartbeat === undefined) return;
    if (event.kind === 'artifact-update') return this.#grow(event);
    const message = messageOf(event);
    if (message !== undefined) this.#send(message);
  }

  close(): void {
    clearInterval(this.#heartbeat);
  }

  #grow({ append, artifact }: Extract<AgentEvent, { kind: 'artifact-update' }>): void {
    const text = partsText(artifact.parts);
    this.#text = tailOf(append ? this.#text + text : text, maxLength);
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
      event.kind satisfies
        | 'task'
        | 'status-update'
        | 'artifact-update'
        | 'internal:iteration-complete'
        | 'internal:llm-call'
        | 'internal:llm-response'
        | 'internal:llm-attempt-discarded'
        | 'internal:request-fitted'
        | 'internal:llm-warning'
        | 'internal:reasoning-delta'
        | 'internal:tool-call-delta'
        | 'internal:tool-progress'
        | 'internal:checkpoint'
        | 'internal:paused'
        | 'internal:resumed'
        | 'internal:sub-agent'
        | 'internal:extension-error'
        | `internal:x.${string}`;
      return undefined;
  }
}
