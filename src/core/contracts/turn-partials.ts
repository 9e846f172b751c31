import { EMPTY, filter, groupBy, mergeMap, type Observable, throwError } from 'rxjs';
import type { AgentLoopConfig } from './config.ts';
import type { AgentEvent } from './events.ts';
import { invalidConfig } from './invalid-config.ts';

/** Reads the values of a turn while the model writes them: each agent's by its own extensions. */
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
