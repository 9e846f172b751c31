import type { LLMChunk } from 'millrace';
import { commitOf } from 'millrace/internals';
import { type Commit, mapLLMResponseToState, type Signal, type TurnDeps } from 'millrace/operators';
import { of } from 'rxjs';
import { startedState } from './turn-deps.ts';

/** The commit of a response that asks for the tools named, with the intents of those that start first. */
export function openBatch(deps: TurnDeps, names: readonly string[]): Commit {
  const calling = commitOf(deps.node, startedState(), [{ type: 'llm.start', iteration: 1, attempt: 1 }]).after;
  const toolCalls = names.map((name, index) => ({
    id: `call_${index}`,
    type: 'function' as const,
    function: { name, arguments: JSON.stringify({ index }) },
  }));
  const done: LLMChunk = { type: 'done', response: { message: { role: 'assistant', content: null }, toolCalls } };
  let commit: Commit | undefined;
  of(done)
    .pipe(mapLLMResponseToState(deps, calling))
    .subscribe((signal) => {
      if (signal.type === 'commit') commit = signal;
    });
  if (commit === undefined) throw new Error('The response gave no commit.');
  return commit;
}

/** A signal of a batch in short: `intent 1:0`, `result 1:0 ok`, `progress 1:0`; several records of one append joined. */
export function shown(signal: Signal): string {
  if (signal.type === 'tool-progress') return `progress ${signal.callId}`;
  if (signal.type !== 'commit') return signal.type;
  return signal.steps
    .map(({ record }) => {
      if (record.type === 'tool.intent') return `intent ${record.callId}`;
      if (record.type === 'tool.result') return `result ${record.callId} ${record.error?.code ?? 'ok'}`;
      return record.type;
    })
    .join(', ');
}
