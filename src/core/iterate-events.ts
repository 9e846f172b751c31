import type { Observable } from 'rxjs';
import type { AgentEvent } from './events.ts';

/**
 * The events of a turn for `for await`. Subscribes with the first `next`; leaving the loop unsubscribes. Events that the loop has not
 * asked for yet wait, with adjacent pieces of one text merged, so that a slow reader holds the text and the records, not every delta.
 * A lost turn throws.
 */
export async function* iterateEvents(events$: Observable<AgentEvent>): AsyncGenerator<AgentEvent, void, undefined> {
  const waiting: AgentEvent[] = [];
  let wake = () => {};
  let end: { readonly error?: unknown } | undefined;
  const finish = (how: NonNullable<typeof end>) => {
    end = how;
    wake();
  };
  const subscription = events$.subscribe({
    next(event) {
      const last = waiting.at(-1);
      const merged = last && mergeText(last, event);
      if (merged) waiting[waiting.length - 1] = merged;
      else waiting.push(event);
      wake();
    },
    error: (error: unknown) => finish({ error }),
    complete: () => finish({}),
  });
  try {
    for (;;) {
      const event = waiting.shift();
      if (event) {
        yield event;
      } else if (end) {
        if ('error' in end) throw end.error;
        return;
      } else {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    }
  } finally {
    subscription.unsubscribe();
  }
}

function mergeText(first: AgentEvent, second: AgentEvent): AgentEvent | undefined {
  if (first.kind !== 'artifact-update' || second.kind !== 'artifact-update') return undefined;
  if (!second.append || second.lastChunk || first.lastChunk) return undefined;
  if (first.artifact.artifactId !== second.artifact.artifactId) return undefined;
  const [a, b] = [first.artifact.parts[0], second.artifact.parts[0]];
  if (a?.kind !== 'text' || b?.kind !== 'text') return undefined;
  return { ...first, artifact: { ...first.artifact, parts: [{ kind: 'text', text: a.text + b.text }] } };
}
