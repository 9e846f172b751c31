import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** One exchange with a vendor, as it is written to a file. */
interface Recorded {
  /** Path and query of the request; the host and the headers are left out. */
  readonly path: string;
  readonly request: unknown;
  readonly status: number;
  readonly contentType: string | null;
  /** As it came: JSON, or a stream. */
  readonly body: string;
}

/** Writes each exchange of a vendor to a file of its own, named after the scenario. */
export class Recording {
  readonly #folder: string;
  readonly #vendor: string;
  readonly #secrets: readonly string[];
  readonly #writes: Promise<void>[] = [];
  #scenario = '';
  #count = 0;

  constructor(folder: string, vendor: string, secrets: readonly string[]) {
    mkdirSync(folder, { recursive: true });
    this.#folder = folder;
    this.#vendor = vendor;
    this.#secrets = secrets.filter((secret) => secret !== '');
  }

  begin(scenario: string): void {
    this.#scenario = scenario.replaceAll(' ', '-');
    this.#count = 0;
  }

  readonly fetch = async (url: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const response = await fetch(url, init);
    this.#count += 1;
    const name = `${this.#vendor}-${this.#scenario}-${this.#count}.json`;
    const { pathname, searchParams } = new URL(url instanceof Request ? url.url : url);
    searchParams.delete('key');
    const query = searchParams.size === 0 ? '' : `?${searchParams}`;
    const sent = typeof init?.body === 'string' ? init.body : '';
    const copy = response.clone();
    const head = { path: pathname + query, request: parsed(sent), status: copy.status };
    const write = copy.text().then(
      (body) => this.#write(name, { ...head, contentType: copy.headers.get('content-type'), body }),
      // Cancelled: what came of it is not a stream to keep.
      () => {},
    );
    this.#writes.push(write);
    return response;
  };

  /** Resolves once all files are written. */
  async done(): Promise<void> {
    await Promise.all(this.#writes);
  }

  #write(name: string, recorded: Recorded): void {
    let text = JSON.stringify(recorded, null, 2);
    for (const secret of this.#secrets) text = text.replaceAll(secret, '[secret]');
    writeFileSync(join(this.#folder, name), `${text}\n`);
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
