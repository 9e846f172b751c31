import type { Extension, TurnFinish } from '../../core/contracts/index.ts';
import { aFunction, assertGiven, assertOptions, someCount } from '../../providers/policies/policy-options.ts';

export interface FinishedWorkOptions {
  /** What the model shall read where work is left, such as the open points of a list; nothing where all is done. */
  readonly prompt: (finish: TurnFinish) => string | undefined | Promise<string | undefined>;
  /** How often a turn is continued. Default 3. */
  readonly maxReminders?: number | undefined;
}

/**
 * Asks before a turn completes whether work is left, and if so continues it with a message to the model, `maxReminders` times at
 * most; then it completes all the same. A turn that something else ends, such as a limit or the done tool, is asked about as well.
 * Errors: `INVALID_CONFIG`, naming the option.
 */
export function requireFinishedWork(options: FinishedWorkOptions): Extension {
  assertOptions('requireFinishedWork', options, { prompt: aFunction, maxReminders: someCount });
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
