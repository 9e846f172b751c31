import { agent, InMemoryStateStore } from 'millrace';
import { a2aServer } from 'millrace/a2a';
import { Observable } from 'rxjs';

const words = Array.from({ length: 60 }, (_, index) => `word-${index} `);

/** A model that says sixty words, one each ten milliseconds. */
const provider = {
  call: () => Promise.reject(new Error('it streams')),
  stream: () =>
    new Observable((subscriber) => {
      let said = 0;
      const timer = setInterval(() => {
        if (said < words.length) return subscriber.next({ type: 'text', text: words[said++] });
        subscriber.next({
          type: 'done',
          response: { message: { role: 'assistant', content: words.join('') }, finishReason: 'stop' },
        });
        subscriber.complete();
      }, 10);
      return () => clearInterval(timer);
    }),
};

const store = new InMemoryStateStore();
const options = { agent: agent({ id: 'load', provider, enableTracing: false }), store };
const server = await a2aServer({ ...options, maxStreams: 10_000, rateLimit: null });
process.send(await server.listen({ port: 0 }));
const before = process.cpuUsage();
process.on('disconnect', () => process.exit(0));
process.on('message', () => {
  const { user, system } = process.cpuUsage(before);
  const rssMiB = Math.round(process.memoryUsage.rss() / 2 ** 20);
  process.send({ expected: words.join(''), cpuMs: (user + system) / 1000, rssMiB });
});
