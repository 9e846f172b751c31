import type { Tool } from '../tools/interfaces.ts';
import type { ToolCompleteEvent, ToolStartEvent } from './events.ts';
import type { Content } from './messages.ts';

/**
 * The events of the calls of some tools, told apart by `toolName`. Of tools whose names are not known, as those of tool providers, it is that of any
 * tool. Tools that the engine brings are among them, with arguments of any type; tools that an extension of yours brings are not.
 */
export type ToolEvent<X extends Tool> =
  string extends NameOf<X>
    ? ToolStartEvent | ToolCompleteEvent
    : EventsOf<X> | ToolStartEvent<EngineToolName> | ToolCompleteEvent<EngineToolName>;

type EngineToolName =
  | '__finish__'
  | 'hand_off'
  | 'read_tool_output'
  | `${'create' | 'update' | 'read'}_artifact`
  | 'list_artifacts';

type NameOf<X extends Tool> = X['definition']['function']['name'];

type EventsOf<X extends Tool> =
  X extends Tool<infer Args, infer _, infer Name, infer Result>
    ?
        | ToolStartEvent<Name, Recorded<Args>>
        | ToolSucceededEvent<Name, Recorded<Args>, ContentOf<Result>>
        | ToolFailedEvent<Name>
    : never;

/** A call that has its result. */
export interface ToolSucceededEvent<Name extends string, Args, C extends Content>
  extends ToolCompleteEvent<Name, Args, C> {
  readonly success: true;
}

/** A call that failed. One that was refused has the arguments as the model sent them, which may be of any type. */
export interface ToolFailedEvent<Name extends string> extends ToolCompleteEvent<Name> {
  readonly success: false;
}

/** What a journal makes of a value: live it is what the tool gets, of a journal of another process its JSON. */
export type Recorded<T> = T extends string | number | boolean | null | undefined
  ? T
  : T extends { toJSON(...args: never): infer Json }
    ? T | Json
    : T extends bigint | ReadonlyMap<unknown, unknown> | ReadonlySet<unknown>
      ? unknown
      : T extends object
        ? { readonly [Key in keyof T]: Recorded<T[Key]> }
        : T;

/** The content of a result of a tool that returns `T`: data is its JSON, which `parseContent` reads. */
export type ContentOf<T> = unknown extends T
  ? Content
  : [T] extends [string | undefined]
    ? string
    : [NotData<T>] extends [never]
      ? JsonContent<Recorded<T>>
      : Content;

/** What of `T` does not become JSON: text, nothing, a `Date`, parts. */
type NotData<T> = T extends number | boolean | null | readonly unknown[]
  ? never
  : T extends string | bigint | undefined | { toJSON(...args: never): unknown }
    ? T
    : [Extract<keyof T, symbol>] extends [never]
      ? never
      : T;

/** JSON text of a value of type `T`. */
export type JsonContent<T> = string & { readonly '~json'?: T };
