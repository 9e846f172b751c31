import {
  type Extension,
  type HookContext,
  TaskComplete,
  type ToolOutcomeChange,
  type TurnFinish,
} from '../../core/contracts/index.ts';
import { aBoolean, aFunction, aName, assertGiven, assertOptions, wholeNumber } from '../../options/option-rules.ts';
import { LocalToolProvider } from '../../tools/local-tools.ts';
import { engineTool, tool } from '../../tools/tool.ts';

/** Options of `doneTool`. */
export interface DoneToolOptions {
  /** Whether a response without calls does not end the turn: the model is asked to continue, or to call the tool. Default false. */
  readonly required?: boolean | undefined;
  /** Default `done`. */
  readonly name?: string | undefined;
  /** The description for the model. Default: to call it once the task is complete. */
  readonly description?: string | undefined;
  /** The message after a response without calls, with `required`. Default: asks the model to continue, or to call the tool. */
  readonly nudge?: string | undefined;
}

/**
 * A tool with which the model ends the turn, optionally with a final message; any other tool can also end it by throwing a
 * `TaskComplete` or returning a `DoneSignal`. The turn completes with the reason `done` and that message, else with the text of the
 * response that made the call. Calls of the same batch that have not started are skipped; if several end the turn, the first
 * counts. Errors: `INVALID_CONFIG`, naming the option.
 */
export function doneTool(options: DoneToolOptions = {}): Extension {
  assertOptions('doneTool', options, { required: aBoolean, name: aName, description: aName, nudge: aName });
  const { required = false, name = 'done' } = options;
  const { nudge = `Continue with the task. If it is complete, call the tool "${name}".` } = options;
  return {
    name: 'done-tool',
    toolProviders: [new LocalToolProvider([doneCall(name, options.description)], { name: 'doneTool' })],
    afterToolCall(outcome) {
      const { call, thrown, state } = outcome;
      if (!TaskComplete.isInstance(thrown)) return undefined;
      const handed = handedOver(outcome);
      if (handed && call.function.name === name) return handed;
      const { finalMessage: text, message } = thrown;
      const result = { content: message };
      if (state.changes.finish) return { result };
      return { result, finish: { ...(text !== undefined && { text }), reason: 'done' } };
    },
    ...(required && {
      beforeFinish: ({ state }) =>
        state.changes.finish ? undefined : { messages: [{ role: 'user' as const, content: nudge }] },
    }),
  };
}

function doneCall(
  name: string,
  description = 'Ends the task. Call it once everything that was asked is done, with a last message if there is more to say.',
) {
  return engineTool(
    tool({
      name,
      description,
      parameters: {
        type: 'object',
        properties: { message: { type: 'string', description: 'The last message to the user.' } },
      },
      readOnly: true,
      onInDoubt: 'retry',
      execute({ message }) {
        throw new TaskComplete(typeof message === 'string' && message !== '' ? message : undefined);
      },
    }),
  );
}

/** Options of `requireFinishedWork`. */
export interface FinishedWorkOptions {
  /** Returns the message for the model if work is left, such as the open points of a list; `undefined` if all is done. */
  readonly prompt: (finish: TurnFinish) => string | undefined | Promise<string | undefined>;
  /** How often a turn is continued. Default 3. */
  readonly maxReminders?: number | undefined;
}

/**
 * Checks before a turn completes whether work is left, and if so continues it with a message to the model, at most `maxReminders`
 * times; then the turn completes anyway. Also called for a turn that something else ends, such as a limit or the done tool.
 * Errors: `INVALID_CONFIG`, naming the option.
 */
export function requireFinishedWork(options: FinishedWorkOptions): Extension {
  assertOptions('requireFinishedWork', options, { prompt: aFunction, maxReminders: wholeNumber(1) });
  const { prompt, maxReminders = 3 } = options;
  assertGiven('requireFinishedWork', 'prompt', prompt, 'give a function that says what is left');
  return {
    name: 'require-finished-work',
    async beforeFinish(finish) {
      const reminders = typeof finish.data === 'number' ? finish.data : 0;
      if (reminders >= maxReminders) return undefined;
      const content = await prompt(finish);
      return content ? { messages: [{ role: 'user', content }], data: reminders + 1 } : undefined;
    },
  };
}

/**
 * The outcome of a call that would end the turn after an earlier call of the same response handed it to another agent: the first
 * counts, and the result tells the next agent's model so. `undefined` if no agent was chosen.
 */
export function handedOver({ state }: HookContext): ToolOutcomeChange | undefined {
  const { agent } = state.changes;
  if (agent === undefined) return undefined;
  const content = `Not taken: the turn is handed to ${agent.to} already, which ends it; the first of such calls counts.`;
  return { result: { content, success: false } };
}
