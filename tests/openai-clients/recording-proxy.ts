import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';

/** A way to a server that keeps its address while the server has another one, and records the statuses of the answers. */
export class RecordingProxy {
  readonly #server: Server;
  readonly #answers: { readonly key: string; readonly answer: number | 'broken' }[] = [];
  #target: number | undefined;
  #waiting: (() => void)[] = [];

  constructor() {
    this.#server = createServer((incoming, outgoing) => {
      const pass = () => this.#pass(incoming, outgoing);
      if (this.#target === undefined) this.#waiting.push(pass);
      else pass();
    });
  }

  /** The port of the server. Requests wait while it is `undefined`: how long a server takes to start decides nothing. */
  get target(): number | undefined {
    return this.#target;
  }

  set target(port: number | undefined) {
    this.#target = port;
    if (port !== undefined) for (const pass of this.#waiting.splice(0)) pass();
  }

  #pass(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const { method, url: path, headers } = incoming;
    const key = String(headers.authorization).replace('Bearer ', '');
    const onward = request({ host: '127.0.0.1', port: this.#target, method, path, headers }, (answer) => {
      const { statusCode = 0 } = answer;
      this.#answers.push({ key, answer: statusCode });
      outgoing.writeHead(statusCode, answer.headers);
      answer.on('error', () => outgoing.destroy());
      answer.pipe(outgoing);
    });
    onward.on('error', () => {
      if (!outgoing.headersSent) this.#answers.push({ key, answer: 'broken' });
      outgoing.destroy();
    });
    outgoing.on('close', () => onward.destroy());
    incoming.pipe(onward);
  }

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    const address = this.#server.address();
    if (typeof address !== 'object' || address === null) throw new Error('The proxy has no address.');
    return `http://127.0.0.1:${address.port}`;
  }

  /** The answers to requests with that key, and forgets them. */
  take(key: string): readonly (number | 'broken')[] {
    const taken = this.answersOf(key);
    const left = this.#answers.filter((each) => each.key !== key);
    this.#answers.splice(0, this.#answers.length, ...left);
    return taken;
  }

  answersOf(key: string): readonly (number | 'broken')[] {
    return this.#answers.filter((each) => each.key === key).map(({ answer }) => answer);
  }

  async close(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }
}
