import type { AgentEvent, ExtensionEvent } from 'millrace';
import type { ExtensionEventKind } from 'millrace/types';
import type { Observable, Subscription } from 'rxjs';

export type EventOf<K extends AgentEvent['kind']> =
  | Extract<AgentEvent, { kind: K }>
  | (K extends ExtensionEventKind ? ExtensionEvent<K> : never);

/** What one subscriber has seen. */
export interface Watcher {
  readonly events: readonly AgentEvent[];
  /** How its stream ended, once it has. */
  readonly end: 'complete' | { readonly error: unknown } | undefined;
  /** Resolves when its stream ends, either way. */
  readonly ended: Promise<void>;
  /** Resolves with the first event that passes, also with one that was seen before. */
  until<K extends AgentEvent['kind']>(kind: K, test?: (event: EventOf<K>) => boolean): Promise<EventOf<K>>;
  of<K extends AgentEvent['kind']>(kind: K): readonly EventOf<K>[];
  leave(): void;
}

/** Subscribes and keeps what comes; `onEvent` is called from within the handler. */
export function watch(source: Observable<AgentEvent>, onEvent: (event: AgentEvent) => void = () => {}): Watcher {
  const events: AgentEvent[] = [];
  const waiting = new Set<() => void>();
  let end: Watcher['end'];
  let finish = () => {};
  const ended = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const finishWith = (how: NonNullable<Watcher['end']>) => {
    end = how;
    finish();
  };
  const subscription: Subscription = source.subscribe({
    next(event) {
      events.push(event);
      onEvent(event);
      for (const look of waiting) look();
    },
    error: (error: unknown) => finishWith({ error }),
    complete: () => finishWith('complete'),
  });
  return {
    events,
    ended,
    get end() {
      return end;
    },
    until: (kind, test = () => true) =>
      new Promise((resolve) => {
        const look = () => {
          const found = ofKind(events, kind).find(test);
          if (!found) return;
          waiting.delete(look);
          resolve(found);
        };
        waiting.add(look);
        look();
      }),
    of: (kind) => ofKind(events, kind),
    leave: () => subscription.unsubscribe(),
  };
}

export function ofKind<K extends AgentEvent['kind']>(events: readonly AgentEvent[], kind: K): readonly EventOf<K>[] {
  return events.filter((event): event is EventOf<K> => event.kind === kind);
}

/** Events in short, one line each, to compare whole sequences at a glance. */
export function outlineOf(events: readonly AgentEvent[]): readonly string[] {
  return events.map(lineOf);
}

function lineOf(event: AgentEvent): string {
  switch (event.kind) {
    case 'task':
      return `task ${event.status.state}`;
    case 'status-update':
      return `status ${event.status.state}${event.final ? ' final' : ''}${event.reason === undefined ? '' : ` (${event.reason})`}`;
    case 'internal:sub-agent':
      return `sub-agent ${event.path.map(({ agentId }) => agentId).join('/')}: ${lineOf(event.event)}`;
    case 'artifact-update': {
      const mode = `${event.append ? 'appends' : 'is'}${event.lastChunk ? ', last' : ''}`;
      return `${event.artifact.artifactId} ${mode}: ${JSON.stringify(textOfParts(event))}`;
    }
    case 'internal:llm-call':
    case 'internal:llm-attempt-discarded':
      return `${nameOf(event)} ${event.iteration}.${event.attempt}`;
    case 'internal:iteration-start':
    case 'internal:iteration-complete':
      return `${nameOf(event)} ${event.iteration}`;
    case 'internal:llm-response':
      return `llm-response ${event.iteration} ${event.finishReason}`;
    case 'internal:reasoning-delta':
      return `reasoning-delta ${JSON.stringify(event.text)}`;
    case 'internal:tool-call-delta':
      return `tool-call-delta ${event.index} ${event.toolName ?? ''}${event.arguments}`;
    case 'internal:tool-start':
      return `tool-start ${event.callId} ${event.toolName}`;
    case 'internal:tool-progress':
      return `tool-progress ${event.callId} ${JSON.stringify(event.update)}`;
    case 'internal:tool-complete':
      return `tool-complete ${event.callId} ${event.error?.code ?? 'ok'}`;
    case 'internal:checkpoint':
      return `checkpoint ${event.phase} ${event.iteration}`;
    case 'internal:paused':
      return `paused (${event.reason})`;
    case 'internal:resumed':
      return 'resumed';
    case 'internal:request-fitted':
      return `request-fitted ${event.changes.map(({ at }) => at).join(' ')}`;
    case 'internal:llm-warning':
      return `llm-warning ${event.message}`;
    case 'internal:extension-error':
      return `extension-error ${event.extension}.${event.hook}`;
    default:
      return `${nameOf(event)} ${JSON.stringify(event.payload)}`;
  }
}

function nameOf(event: AgentEvent): string {
  return event.kind.slice('internal:'.length);
}

export function textOfParts({ artifact }: EventOf<'artifact-update'>): string {
  return artifact.parts.map((part) => (part.kind === 'text' ? part.text : '')).join('');
}

/** What the artifacts hold in the end. */
export function textsOf(events: readonly AgentEvent[]): Readonly<Record<string, string>> {
  const texts: Record<string, string> = {};
  for (const event of ofKind(events, 'artifact-update')) {
    const { artifactId } = event.artifact;
    texts[artifactId] = (event.append ? (texts[artifactId] ?? '') : '') + textOfParts(event);
  }
  return texts;
}

/** The events of records, but for how the text of a model call came in pieces: what every reader of a turn has to see alike. */
export function ofRecords(events: readonly AgentEvent[]): readonly AgentEvent[] {
  return events.filter(({ kind, cursor }) => cursor !== undefined && kind !== 'artifact-update');
}
