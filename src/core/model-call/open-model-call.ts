import {
  type AgentLoopError,
  addUsage,
  type FailedCall,
  type LLMCallParams,
  type LLMResponse,
  noUsage,
  type Usage,
} from '../contracts/index.ts';
import type { TerminalRecord, TurnSuspended } from '../journal/index.ts';
import type { ToolCallDeps } from '../tool-call/tool-results.ts';
import type { ModelSilence } from './limits.ts';
import { ReportedUsage } from './usage.ts';

/** What model calls use of the run of a turn. */
export interface ModelCallDeps extends ToolCallDeps {
  /** The current model call until a record contains its usage. */
  readonly openModelCall: OpenModelCall;
}

/**
 * The current model call until a record contains what its provider reported: `llm.done`, or for a failed or aborted call the end of the turn, a
 * suspension, or `x.shutdown`.
 */
export class OpenModelCall {
  /** The limit on its silence, if any. */
  silence: ModelSilence | undefined;
  #params: LLMCallParams | undefined;
  #reported = new ReportedUsage();
  #response: LLMResponse | undefined;
  #error: AgentLoopError | undefined;

  /** A call starts. Returns its `noteUsage`, which receives the usage of requests without an answer. */
  begin(params: LLMCallParams): NonNullable<LLMCallParams['noteUsage']> {
    const reported = new ReportedUsage();
    this.#params = params;
    this.#reported = reported;
    this.#response = undefined;
    this.#error = undefined;
    return (usage) => reported.add(usage);
  }

  /** The answer has arrived. Returns it with the reported usage of failed requests. */
  answered(given: LLMResponse): LLMResponse {
    this.silence?.heard();
    const response = this.#params ? this.#reported.answered(given) : given;
    this.#response = response;
    return response;
  }

  /** Whether the answer has arrived. */
  get isAnswered(): boolean {
    return this.#response !== undefined;
  }

  failed(error: AgentLoopError): void {
    this.#error = error;
  }

  /** Why it failed, and its request; `undefined` if `error` is not its failure. */
  failureBy(error: unknown): FailedCall | undefined {
    if (this.#params === undefined || this.#error === undefined || error !== this.#error) return undefined;
    return { error: this.#error, params: this.#params };
  }

  /** A record contains its usage. */
  close(): void {
    this.#params = undefined;
  }

  /** Its usage so far, as its provider reported it; `undefined` if it reported none, or no call is open. */
  get usage(): Usage | undefined {
    const usage = this.#params && (this.#response?.usage ?? this.#reported.sum);
    return usage && addUsage(noUsage, usage).totalTokens > 0 ? usage : undefined;
  }

  /** Its usage, for the record that will contain it. */
  take(): Usage | undefined {
    const { usage } = this;
    this.close();
    return usage;
  }

  /** Adds the usage of the open call to the record that ends the turn or its attempt. */
  closedBy<R extends TerminalRecord | TurnSuspended>(end: R): R {
    const usage = this.take();
    return usage ? { ...end, usage } : end;
  }
}
