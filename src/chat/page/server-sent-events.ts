/** The server sends a heartbeat every 15 seconds. */
const longestSilenceMs = 45_000;

/** Nobody answers, or not any more: to be tried again. */
export class UnreachableError extends Error {
  override readonly name = 'UnreachableError';
  /** The longest pause before the next attempt: a server that starts again is noticed within a second, one that is busy is left alone longer. */
  readonly longestWaitMs: number;

  constructor(message: string, { isBusy = false, ...options }: ErrorOptions & { readonly isBusy?: boolean } = {}) {
    super(message, options);
    this.longestWaitMs = isBusy ? 5_000 : 1_000;
  }
}

/** The data of each event of a response. Errors: `UnreachableError` where it breaks off, and where nothing comes any more. */
export async function* eventsOf({ body }: Response): AsyncGenerator<string> {
  if (!body) return;
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = '';
  try {
    for (;;) {
      const { done, value } = await read(reader);
      if (done) return;
      const events = (text + decoder.decode(value, { stream: true })).split(/\r?\n\r?\n/);
      text = events.pop() ?? '';
      for (const event of events) {
        const data = dataOf(event);
        if (data !== '') yield data;
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

async function read(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<ReadableStreamReadResult<Uint8Array>> {
  let watch: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_resolve, reject) => {
    watch = setTimeout(() => reject(new UnreachableError('The server is silent.')), longestSilenceMs);
  });
  try {
    return await Promise.race([reader.read(), silence]);
  } catch (error) {
    if (error instanceof UnreachableError || (error instanceof DOMException && error.name === 'AbortError'))
      throw error;
    throw new UnreachableError('The connection broke.', { cause: error });
  } finally {
    clearTimeout(watch);
  }
}

function dataOf(event: string): string {
  const lines = event.split(/\r?\n/).filter((line) => line.startsWith('data:'));
  return lines.map((line) => line.slice(5).trimStart()).join('\n');
}
