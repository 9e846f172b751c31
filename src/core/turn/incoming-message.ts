import { checkMessages } from '../contracts/check-messages.ts';
import { AgentLoopError, messageOf } from '../contracts/errors.ts';
import type { Extension } from '../contracts/extension.ts';
import type { Message } from '../contracts/messages.ts';
import { isPromiseLike } from '../contracts/promise-like.ts';

/** A message of the caller as the extensions let it in. Errors: `EXTENSION_FAILED` where one fails whose `onError` is `'fail'`. */
export function incomingMessage(extensions: readonly Extension[], message: Message): Message {
  return extensions.reduce((before, extension) => letIn(extension, before), message);
}

function letIn(extension: Extension, message: Message): Message {
  try {
    const changed = extension.beforeMessage?.(message) ?? message;
    if (isPromiseLike(changed)) throw new TypeError('it answered with a promise; it has to answer at once');
    checkMessages([changed]);
    return changed;
  } catch (cause) {
    if (extension.onError === 'continue') return message;
    const problem = `Extension "${extension.name}" failed in beforeMessage: ${messageOf(cause)}`;
    throw new AgentLoopError('EXTENSION_FAILED', problem, { cause });
  }
}
