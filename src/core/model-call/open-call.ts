import type { AgentLoopError } from '../contracts/errors.ts';
import type { LLMCallParams, LLMProvider, LLMResponse } from '../contracts/provider.ts';
import type { Usage } from '../contracts/usage.ts';
import type { TerminalRecord, TurnSuspended } from '../journal/records.ts';
import type { StreamChunk } from '../journal/signals.ts';
import { usageWithoutAnswer } from './estimate-usage.ts';
import type { ModelSilence } from './model-silence.ts';
import { StreamedTokens } from './text-tokens.ts';
import { ToldUsage } from './told-usage.ts';

/** The last model call of a run, as long as no record says what it took: that of a call which fails or is left stands at the turn's end, or where the process shuts down in a record of its own. */
export class OpenCall {
  /** Limits its silence, where that is limited. */
  silence: ModelSilence | undefined;
  #params: LLMCallParams | undefined;
  #told: ToldUsage | undefined;
  #response: LLMResponse | undefined;
  #error: AgentLoopError | undefined;
  #output = new StreamedTokens();

  /** A call is about to be made. Gives what its provider tells of requests without an answer. */
  begin(params: LLMCallParams, provider: LLMProvider): NonNullable<LLMCallParams['noteUsage']> {
    const told = new ToldUsage(params, provider);
    this.#params = params;
    this.#told = told;
    this.#response = undefined;
    this.#error = undefined;
    this.#output = new StreamedTokens();
    return (usage) => told.add(usage);
  }

  /** A delta has come. */
  saw(chunk: StreamChunk): void {
    this.silence?.heard();
    if (chunk.type === 'text' || chunk.type === 'reasoning') this.#output.add(chunk.text);
    else if (chunk.type === 'tool-call') this.#output.add(chunk.arguments ?? '');
  }

  /** The answer has come. Returns it with the usage that its provider reported for failed requests. */
  answered(given: LLMResponse): LLMResponse {
    this.silence?.heard();
    const response = this.#params && this.#told ? this.#told.answered(given) : given;
    this.#response = response;
    return response;
  }

  /** Whether the answer is there. */
  get isAnswered(): boolean {
    return this.#response !== undefined;
  }

  failed(error: AgentLoopError): void {
    this.#error = error;
  }

  /** A record says what it took. */
  close(): void {
    this.#params = undefined;
  }

  /** What it took by now: as its provider tells, else a guess. Nothing where no call is open, or it was refused. */
  get usage(): Usage | undefined {
    if (this.#params === undefined) return undefined;
    const { usage } = this.#response ?? {};
    const taken = usage ?? this.#told?.sum ?? usageWithoutAnswer(this.#params, this.#output.tokens, this.#error);
    return taken && taken.totalTokens > 0 ? taken : undefined;
  }

  /** What it took, for a record that says it. */
  take(): Usage | undefined {
    const { usage } = this;
    this.close();
    return usage;
  }

  /** The end of a turn, or of its current attempt, with what the call took that it ends in. */
  closedBy<R extends TerminalRecord | TurnSuspended>(end: R): R {
    const usage = this.take();
    return usage ? { ...end, usage } : end;
  }
}
