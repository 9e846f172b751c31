import { catchError, defer, finalize, tap, throwError } from 'rxjs';
import { AgentLoopError, type Clock, systemClock } from '../../core/contracts/index.ts';
import { aClock, assertOptions, milliseconds, wholeNumber } from '../../options/option-rules.ts';
import { definePolicy, type ProviderPolicy } from './provider-policy.ts';

/** Options of `circuitBreaker`: when it opens, and how long. */
export interface CircuitBreakerOptions {
  /** Failures in a row that open the circuit. Default 5. */
  readonly failures?: number | undefined;
  /** How long no request is made then. Milliseconds; default 30,000. */
  readonly openMs?: number | undefined;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

/**
 * Makes no request for a while after several failures in a row: calls fail at once with `PROVIDER_UNREACHABLE`, `retryAfterMs` saying
 * how long the circuit stays open. Then one call is let through: its answer closes the circuit, its failure opens it again; the others
 * fail until that is known. Failures are those of the model and of the way to it, not of a request that is wrong in itself; a call that
 * is left counts neither way. Each provider that the policy is put around has a circuit of its own, shared by all turns.
 *
 * Inside of `retry`, calls wait until the circuit closes, where that is worth the wait; outside of it, they fail at once.
 * Errors: `INVALID_CONFIG`, naming the option.
 */
export function circuitBreaker(options: CircuitBreakerOptions = {}): ProviderPolicy {
  assertOptions('circuitBreaker', options, { failures: wholeNumber(1), openMs: milliseconds(1), clock: aClock });
  return definePolicy('circuitBreaker', (stream, { info }) => {
    const circuit = new Circuit(options, info?.model ?? 'the model');
    return (params) =>
      defer(() => {
        const refusal = circuit.refusal();
        if (refusal) return throwError(() => refusal);
        const leave = circuit.enter();
        return stream(params).pipe(
          tap((chunk) => {
            if (chunk.type === 'done') circuit.succeed();
          }),
          catchError((error: AgentLoopError) => {
            circuit.fail(error);
            return throwError(() => error);
          }),
          finalize(leave),
        );
      });
  });
}

/** What is known of one provider. */
class Circuit {
  readonly #most: number;
  readonly #openMs: number;
  readonly #clock: Clock;
  readonly #model: string;
  #failures = 0;
  /** No request before this time. Milliseconds since 1970. */
  #openUntil = 0;
  #trying = false;

  constructor(options: CircuitBreakerOptions, model: string) {
    this.#most = options.failures ?? 5;
    this.#openMs = options.openMs ?? 30_000;
    this.#clock = options.clock ?? systemClock;
    this.#model = model;
  }

  /** Why a call may not be made now. */
  refusal(): AgentLoopError | undefined {
    if (!this.#isOpen) return undefined;
    const leftMs = this.#openUntil - this.#clock.now();
    if (leftMs <= 0 && !this.#trying) return undefined;
    const when = leftMs > 0 ? `it is tried again in ${leftMs} ms` : 'one call is trying it now';
    return new AgentLoopError(
      'PROVIDER_UNREACHABLE',
      `The circuit to ${this.#model} is open after ${this.#failures} failures in a row; ${when}: use another model meanwhile.`,
      { retryable: true, ...(leftMs > 0 ? { retryAfterMs: leftMs } : {}) },
    );
  }

  /** Begins a call; gives what to do when it is over, whatever became of it. */
  enter(): () => void {
    if (!this.#isOpen) return () => {};
    this.#trying = true;
    return () => {
      this.#trying = false;
    };
  }

  succeed(): void {
    this.#failures = 0;
  }

  fail({ retryable }: AgentLoopError): void {
    // Failures that pass by waiting are those of the model and of the way to it; others are the request's own, or the account's.
    if (!retryable) return;
    this.#failures += 1;
    if (this.#isOpen) this.#openUntil = this.#clock.now() + this.#openMs;
  }

  get #isOpen(): boolean {
    return this.#failures >= this.#most;
  }
}
