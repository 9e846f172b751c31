import { catchError, throwError } from 'rxjs';
import { type AgentLoopError, type ErrorCode, errorCodes, type LLMProvider } from '../../core/contracts/index.ts';
import type { StreamCall } from './attempt-stream.ts';
import { nextAttempt } from './next-attempt.ts';
import { otherProvider } from './other-provider.ts';
import { policyNames } from './policy-names.ts';
import { anything, assertGiven, assertOptions, type OptionKind, wrongOption } from './policy-options.ts';
import { assertOrder } from './policy-order.ts';
import { assertProvider, definePolicy, type ProviderPolicy } from './provider-policy.ts';

export interface FallbackOptions {
  /** Asked in this order once the provider before has failed. */
  readonly to: LLMProvider | readonly LLMProvider[];
  /** The codes of the failures that another provider may mend. Default: all that begin with `PROVIDER_`. */
  readonly on?: readonly ErrorCode[] | undefined;
}

const codesKind: OptionKind = {
  isValid: (value) => Array.isArray(value) && value.every((code) => errorCodes.includes(code)),
  words: 'a list of error codes, such as PROVIDER_SERVER',
};

/**
 * Asks another provider where one has failed, also where it broke off in the middle of its answer: what it streamed is void then. Each
 * call begins with the first provider again. All are asked the same, but for a `model` and `providerOptions` of the call, which are the
 * first's; so the tools, and the history with the calls in it, have to suit them all. The capabilities and the information that show are
 * those of the first. Where all fail, the last error passes. Errors: `INVALID_CONFIG`, naming the option.
 */
export function fallback(options: FallbackOptions): ProviderPolicy {
  assertOptions('fallback', options, { to: anything, on: codesKind });
  assertGiven('fallback', 'to', options.to, 'give the provider that is asked instead, or several');
  const others = [options.to].flat();
  if (others.length === 0) throw wrongOption('fallback', 'to is an empty list; give at least one provider');
  for (const other of others) {
    assertProvider('fallback', other);
    assertOrder(['fallback', ...policyNames(other)]);
  }
  const on: ReadonlySet<ErrorCode> = new Set(options.on ?? errorCodes.filter((code) => code.startsWith('PROVIDER_')));
  return definePolicy('fallback', (stream) =>
    others.map(otherProvider).reduce((before, next) => askNext(before, next, on), stream),
  );
}

/** Asks `next` where `before` fails. */
function askNext(before: StreamCall, next: StreamCall, on: ReadonlySet<ErrorCode>): StreamCall {
  return (params) =>
    before(params).pipe(
      catchError((error: AgentLoopError) =>
        on.has(error.code) ? nextAttempt(error, () => next(params)) : throwError(() => error),
      ),
    );
}
