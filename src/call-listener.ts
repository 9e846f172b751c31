import { isPromiseLike, type Logger, messageOf, withoutForms } from './core/contracts/index.ts';
import { logText } from './guarded-logger.ts';

interface ListenerOptions {
  readonly logger?: Logger | undefined;
  /** What names the listener in a log. */
  readonly fields: Readonly<Record<string, string>>;
}

const warned = new WeakSet<object>();

/** Calls a listener of the application, whose failure must not end the work: it is reported, also if the listener is asynchronous. */
export function callListener<T>(listener: (event: T) => unknown, event: T, options: ListenerOptions): void {
  try {
    const returned = listener(event);
    if (isPromiseLike(returned)) returned.then(undefined, (error) => reportListener(listener, error, options));
  } catch (error) {
    reportListener(listener, error, options);
  }
}

/** Logs the error of a listener. Without a logger it is a warning of the process, `MILLRACE_LISTENER`, the first time that the listener fails. */
export function reportListener(listener: object, error: unknown, { logger, fields }: ListenerOptions): void {
  if (logger) return logger.error('listener failed', { ...fields, error: messageOf(error) });
  if (warned.has(listener)) return;
  warned.add(listener);
  // Node.js writes it to the terminal as it is.
  const clean = (text: string) => logText(withoutForms(text));
  const named = Object.entries(fields).map((field) => field.join(' '));
  const detail = error instanceof Error ? error.stack : undefined;
  globalThis.process?.emitWarning?.(clean(`A listener (${named.join(', ')}) failed: ${messageOf(error)}`), {
    code: 'MILLRACE_LISTENER',
    ...(detail !== undefined && { detail: clean(detail) }),
  });
}
