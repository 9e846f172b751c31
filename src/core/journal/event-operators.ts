import {
  EMPTY,
  filter,
  groupBy,
  type MonoTypeOperatorFunction,
  mergeMap,
  type Observable,
  type OperatorFunction,
  throwError,
} from 'rxjs';
import {
  type AgentEvent,
  type AgentLoopConfig,
  invalidConfig,
  isAfterCursor,
  partsText,
  type SubAgentStep,
} from '../contracts/index.ts';

/** Only the events after a cursor, and deltas. Throws `INVALID_INPUT` for an invalid cursor. */
export function eventsAfter<E extends AgentEvent>(cursor: string | undefined): MonoTypeOperatorFunction<E> {
  return cursor === undefined ? (source) => source : filter<E>(isAfterCursor(cursor));
}

/** A chunk of text of an artifact, of the turn or of one of its descendants. */
export interface AgentText {
  /** From the child turn of this turn to the turn of the text; empty for the turn's own text. */
  readonly path: readonly SubAgentStep[];
  readonly artifactId: string;
  readonly text: string;
  /** False: replaces the text of this path's artifact. */
  readonly append: boolean;
  /** Whether this completes the text. */
  readonly lastChunk: boolean;
}

const own: readonly SubAgentStep[] = [];

/**
 * The text of a turn and of its descendants as it streams: `turn.pipe(agentText())`. Emits one value per artifact event, in the order of
 * the events, including the last, empty chunk of an artifact. `path` and `artifactId` together identify an artifact.
 *
 * Completes and errors as the source does. Unsubscribing unsubscribes from the source. Buffers nothing.
 */
export function agentText(): OperatorFunction<AgentEvent, AgentText> {
  return mergeMap((event) => {
    const nested = event.kind === 'internal:sub-agent';
    const { path, shown } = nested ? { path: event.path, shown: event.event } : { path: own, shown: event };
    if (shown.kind !== 'artifact-update') return [];
    const { artifact, append, lastChunk } = shown;
    const text = partsText(artifact.parts);
    return [{ path, artifactId: artifact.artifactId, text, append, lastChunk }];
  });
}

/** Parses the partial values of a turn while the model generates them, each agent's with its own extensions. */
export function turnPartials({ extensions = [], agents }: Pick<AgentLoopConfig, 'extensions' | 'agents'>) {
  const readerOf = (agentId: string) =>
    [...extensions, ...(agents?.(agentId)?.extensions ?? [])].find((extension) => extension.partials);
  return (events$: Observable<AgentEvent>): Observable<unknown> => {
    if (!agents && !readerOf('')) return throwError(noOutput);
    return events$.pipe(
      filter(({ kind }) => kind !== 'internal:sub-agent'),
      groupBy(({ agentId }) => agentId),
      mergeMap((ofAgent$) => readerOf(ofAgent$.key)?.partials?.(ofAgent$) ?? EMPTY),
    );
  };
}

function noOutput(): Error {
  return invalidConfig(
    'partials needs an agent with structured output',
    'give output: { schema }, or the extension structuredOutput({ schema })',
  );
}
