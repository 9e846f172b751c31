import { isObject, type ToolChoice } from '../../core/contracts/index.ts';
import type { SchemaDialect } from '../../providers/fit-schema.ts';
import type { ProfileName, RequestRules, SettingName } from '../../providers/profiles.ts';
import type { RequestFlaw, SeenMessage } from '../../providers/request-flaws.ts';
import type { ApiError, ChatCall, ChatMessage, ChatRequest, ModelReply } from './chat-request.ts';
import type { GivenState } from './given-state.ts';
import type { AnswerNames, ModelAnswer } from './model-answer.ts';

/** A request's body as it was sent. */
export type ChatBody = Readonly<Record<string, unknown>>;

/** How a wire writes answers and errors. */
export interface AnswerForm {
  /** Whether each event of a stream is named after its `type`. */
  readonly namesEvents: boolean;
  /** What ends a stream after its last event. */
  readonly end: string;
  /** The body of an answer that is not streamed. */
  whole(answer: ModelAnswer): object;
  /** The content of a streamed answer, as the data of its events. */
  content(answer: ModelAnswer, chunkSize?: number): Iterable<object>;
  /** What follows the content: the finish reason and the usage. */
  closing(answer: ModelAnswer): Iterable<object>;
  /** The body of a refusal. */
  refusal(error: ApiError): object;
  /** An error in the middle of a stream. */
  failure(error: object): object;
}

/** What a path says of a request. */
export interface Route {
  readonly model?: string;
  /** Absent: the body says it. */
  readonly stream?: boolean;
}

/** Requests of one wire, as its server reads and answers them. */
export interface Speaker {
  /** What stands before the paths of the wire: `/v1`. */
  readonly base: string;
  readonly form: AnswerForm;
  /** `undefined` where the path is not one of this wire. */
  route(path: string): Route | undefined;
  /** Throws an `ApiError` where the server refuses the request. */
  ask(body: ChatBody, route: Route): Asked;
}

/** A request that the server answers. */
export interface Asked {
  readonly request: ChatRequest;
  /** What the demo model answers. */
  demo(): ModelReply;
  /** The answer with what the server gives of its own; without a model, as the one that was asked. */
  answer(reply: ModelReply, model: string): ModelAnswer;
}

/** What a server refuses: a rule of its profile, or one that its wire adds. */
export interface WireFlaw extends Omit<RequestFlaw, 'rule'> {
  readonly rule: RequestFlaw['rule'] | 'state' | 'required';
}

/** A message as its server reads it, and as the demo model does. */
export type WireMessage = SeenMessage & ChatMessage;

/** A request in the wire of a vendor, as its server reads it. */
export interface WireRequest extends ChatRequest {
  readonly messages: readonly WireMessage[];
  /** `undefined`: the request says nothing of it. */
  readonly givenChoice: ToolChoice | undefined;
  readonly settings: ReadonlySet<SettingName>;
  readonly reasons: boolean;
  /** Texts that end the answer before them. */
  readonly stops: readonly string[];
  /** The schema of the answer. */
  readonly output: WireSchema | undefined;
  /** The dialects of tools whose schemas are not of the profile's own, by the index of the tool. */
  readonly dialects: ReadonlyMap<number, SchemaDialect>;
  /** Whether the reasoning of the answer goes to the client, as what it has to send back. */
  readonly wantsState: boolean;
  readonly flaws: readonly WireFlaw[];
}

export interface WireSchema {
  readonly at: string;
  readonly schema: Readonly<Record<string, unknown>>;
  readonly dialect: SchemaDialect;
}

/** What a wire needs to read a request. */
export interface ReadContext {
  readonly profile: ProfileName;
  readonly route: Route;
  readonly model: string;
  readonly rules: RequestRules;
  readonly given: GivenState;
}

/** The wire of a vendor: how its requests are read and its answers written. */
export interface Wire {
  readonly base: string;
  route(path: string): Route | undefined;
  read(body: ChatBody, context: ReadContext): WireRequest;
  form(given: GivenState): AnswerForm;
  readonly names: Omit<AnswerNames, 'model'>;
  /** Remembers what the server keeps of an answer for itself. */
  keep?(answer: ModelAnswer, body: ChatBody, given: GivenState): void;
}

interface MessageParts {
  readonly at: string;
  readonly role: WireMessage['role'];
  readonly texts?: readonly string[];
  readonly media?: number;
  readonly calls?: readonly ChatCall[];
  readonly callId?: string | undefined;
}

export function wireMessage({ at, role, texts = [], media = 0, calls = [], callId }: MessageParts): WireMessage {
  return { at, role, texts, media, calls, text: texts.join('\n'), ...(callId !== undefined && { callId }) };
}

/** Which settings a body has, by the names of the wire. `null` counts as not given. */
export function settingsIn(body: ChatBody, names: Readonly<Record<string, SettingName>>): ReadonlySet<SettingName> {
  const given = Object.entries(names).filter(([name]) => body[name] !== undefined && body[name] !== null);
  return new Set(given.map(([, setting]) => setting));
}

export function objectsIn(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

export function stringIn(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

export function stringsIn(value: unknown): readonly string[] {
  return [value].flat().filter((each) => typeof each === 'string');
}

export function objectIn(value: unknown): Readonly<Record<string, unknown>> {
  return isObject(value) ? value : {};
}

/** Whether an object anywhere in the value has the member. */
export function hasMember(value: unknown, name: string): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return Object.hasOwn(value, name) || Object.values(value).some((each) => hasMember(each, name));
}

/** The index of the first message of the current turn: what follows the last prompt of the user. */
export function turnStart(messages: readonly WireMessage[]): number {
  return messages.findLastIndex(({ role }) => role === 'user') + 1;
}
