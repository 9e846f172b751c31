import type { Message } from 'millrace';
import type { CreateProviderOptions } from 'millrace/ai-sdk';
import type { LiteLLMProviderOptions } from 'millrace/litellm';
import type { AgentSettings } from 'millrace/types';

/** Which requests a server refuses, as data; `tests/fixtures/models/README.md` describes each member. */
export interface Check {
  readonly if?: Check;
  readonly then?: Check;
  readonly onPath?: string;
  readonly except?: string;
  readonly some?: string;
  readonly never?: string;
  readonly every?: string;
  readonly atLeast?: number;
  readonly matches?: string;
  readonly maxLength?: number;
  readonly includes?: string;
  readonly has?: string;
  readonly hasNone?: readonly string[];
  readonly hasText?: string;
  readonly notEmpty?: readonly string[];
  readonly notBlank?: string;
  readonly isJson?: true;
  readonly distinct?: string;
  readonly everyObjectIn?: string;
  readonly where?: Readonly<Record<string, unknown>>;
  readonly enumLacks?: unknown;
  readonly strictSchema?: string | readonly string[];
  readonly allRequired?: true;
  readonly noNeighbours?: readonly [before: string, after: string];
  readonly neverAfterFirst?: string;
  readonly resultsFollowCalls?: true;
  readonly callsHaveResults?: true;
  readonly wellFormed?: true;
  readonly lacks?: string;
  readonly maxBody?: number;
}

/** Requests that a server refuses, from the n-th on, and its answer to them. */
export interface Rule {
  readonly refuse: string;
  readonly check: Check;
  readonly from?: number;
  readonly status: number;
  readonly body: unknown;
}

/** A piece of an event stream. */
export type Piece =
  | string
  | { readonly event?: string; readonly data: unknown }
  | { readonly base64: string }
  | { readonly pauseMs: number }
  | { readonly cut: true };

export interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly sse?: readonly Piece[];
}

export interface ServerScript {
  readonly answers: readonly Answer[];
  readonly server: readonly Rule[];
}

/** How to make a provider. */
export type ProviderSpec =
  | { readonly use: 'LiteLLMProvider'; readonly options: LiteLLMProviderOptions }
  | { readonly use: 'createProvider'; readonly model: string; readonly options: CreateProviderOptions }
  | { readonly use: 'AISDKProvider'; readonly sdkModel: SdkModel; readonly options?: CreateProviderOptions };

/** Who plays a case: a provider, one of several for each turn, a provider with others to fall back to, the command line, or a function. */
export type Player =
  | ProviderSpec
  | { readonly inTurns: readonly ProviderSpec[] }
  | { readonly fallback: readonly ProviderSpec[] }
  | { readonly cli: true }
  | { readonly function: 'estimateTokens' };

/** `(await import(package))[make](settings)[method](model)`. */
export interface SdkModel {
  readonly package: string;
  readonly make: string;
  readonly settings: Readonly<Record<string, unknown>>;
  readonly method: string;
  readonly model: string;
}

export interface CaseTool {
  readonly name: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly returns: unknown;
}

export interface CaseTurn {
  readonly input: string | readonly Message[];
  readonly contextId?: string;
  readonly provider?: number;
  readonly steer?: { readonly whileRuns: string; readonly input: string };
}

export interface CaseRequest {
  readonly agent?: Partial<AgentSettings>;
  readonly tools?: readonly CaseTool[];
  readonly turns?: readonly CaseTurn[];
  readonly sharedMessageStore?: boolean;
  readonly call?: { readonly messages: readonly Message[] };
  readonly cli?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly estimateTokens?: Message;
}

export interface ExpectedError {
  readonly code?: readonly string[];
  readonly codeNot?: readonly string[];
  readonly retryable?: boolean;
  readonly retryAfterMs?: number;
  readonly messageIncludes?: string;
  readonly messageLacks?: string;
}

export interface ExpectedTurn {
  readonly text?: string;
  readonly textMatches?: string;
  readonly value?: unknown;
  readonly usage?: Readonly<Record<string, number>>;
  readonly includes?: string;
  readonly reasoningIncludes?: string;
  readonly error?: ExpectedError;
}

export interface ExpectedSent {
  readonly request: number;
  readonly path: string;
  readonly equals?: readonly unknown[];
  readonly includes?: string;
  readonly count?: number;
  readonly sameAs?: number;
}

export interface RanTool {
  readonly tool: string;
  readonly args: unknown;
}

/** The right outcome; only what it names counts. */
export interface Expectation {
  readonly anyOf?: readonly Expectation[];
  readonly turns?: readonly ExpectedTurn[];
  readonly response?: { readonly content?: string; readonly error?: ExpectedError };
  readonly ran?: readonly RanTool[];
  readonly requests?: number;
  readonly sent?: readonly ExpectedSent[];
  readonly sent2?: readonly ExpectedSent[];
  readonly threw?: ExpectedError;
  readonly exitCode?: { readonly not: number };
  readonly outputIncludes?: string;
  readonly tokensBelow?: number;
  readonly reachedPath?: string;
}

/** One report of what a vendor sends or refuses, and the right outcome. */
export interface ModelCase extends ServerScript {
  readonly id: string;
  readonly source: string;
  readonly what: string;
  readonly note?: string;
  readonly wire: 'chat-completions' | 'responses' | 'anthropic-messages' | 'google';
  readonly provider: readonly Player[];
  readonly request: CaseRequest;
  readonly server2?: ServerScript;
  readonly expect: Expectation;
}
