import { isPromiseLike, type Logger, messageOf } from '../core/contracts/index.ts';

interface ListenerOptions {
  readonly logger: Logger | undefined;
  /** What names the listener in a log. */
  readonly fields: Readonly<Record<string, string>>;
}

const warned = new WeakSet<object>();

/**
 * Calls a listener. What it throws, or rejects with, is logged. Without a logger it becomes a warning of the process, `MILLRACE_LISTENER`, the
 * first time that the listener fails.
 */
export function callListener<T>(listener: (event: T) => unknown, event: T, { logger, fields }: ListenerOptions): void {
  const failed = (error: unknown): void => {
    if (logger) return logger.error('listener failed', { ...fields, error: messageOf(error) });
    if (warned.has(listener)) return;
    warned.add(listener);
    const named = Object.entries(fields).map((field) => field.join(' '));
    const detail = error instanceof Error ? error.stack : undefined;
    globalThis.process?.emitWarning?.(`A listener (${named.join(', ')}) failed: ${messageOf(error)}`, {
      code: 'MILLRACE_LISTENER',
      ...(detail !== undefined && { detail }),
    });
  };
  try {
    const given = listener(event);
    if (isPromiseLike(given)) given.then(undefined, failed);
  } catch (error) {
    failed(error);
  }
}
