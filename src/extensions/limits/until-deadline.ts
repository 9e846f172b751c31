import { Observable } from 'rxjs';
import { AgentLoopError, type Clock, type LLMResponse, noUsage, type Usage } from '../../core/contracts/index.ts';
import { usageWithoutAnswer } from '../../core/model-call/index.ts';
import type { AroundCall } from '../usage/around-calls.ts';
import { SaidSoFar } from '../usage/said-so-far.ts';
import type { BrokenLimit } from './broken-limit.ts';

export interface Deadline {
  readonly clock: Clock;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly broken: BrokenLimit;
  readonly onLimit: 'fail' | 'stop';
}

/**
 * Leaves a model call at a deadline: it errors with `LIMIT`, or what was said so far is taken as the answer, marked with the reason as
 * `cutShort` in the message's metadata, its usage estimated, and `discarded` what requests before it took.
 */
export function untilDeadline({ clock, at, broken, onLimit }: Deadline): AroundCall {
  return (chunks, params, told) =>
    new Observable((to) => {
      const said = new SaidSoFar();
      const source = chunks.subscribe({
        next: (chunk) => {
          said.add(chunk);
          to.next(chunk);
        },
        error: (error: unknown) => to.error(error),
        complete: () => to.complete(),
      });
      to.add(source);
      if (to.closed) return;
      const expire = () => {
        const before = told();
        source.unsubscribe();
        const isTold = told() !== undefined;
        const guess = usageWithoutAnswer(params, said.attemptTokens);
        if (onLimit === 'fail') {
          if (guess && !isTold) params.noteUsage?.(guess);
          return to.error(limitError(broken));
        }
        const usage = guess && isTold ? { ...guess, discarded: before ?? noUsage } : guess;
        to.next({ type: 'done', response: cutShort(said, broken, usage) });
        to.complete();
      };
      to.add(clock.schedule(Math.max(0, at - clock.now()), expire));
    });
}

export function limitError({ reason, message }: { readonly reason: string; readonly message: string }): AgentLoopError {
  return new AgentLoopError('LIMIT', message, { reason });
}

function cutShort(said: SaidSoFar, { reason }: BrokenLimit, usage: Usage | undefined): LLMResponse {
  const message = { role: 'assistant' as const, content: said.text || null, metadata: { cutShort: reason } };
  return { message, finishReason: 'stop', ...(usage && { usage }) };
}
