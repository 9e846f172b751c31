import { Redis } from 'ioredis';

/** A client whose first script behind a first entry of an index runs only after `meddle`: so others meet the entry without what it names. */
export function meddledClient(url: string, meddle: () => Promise<unknown>): Redis {
  let added: Promise<unknown> | undefined;
  let isDone = false;
  class Meddled extends Redis {
    override sendCommand(...[sent, stream]: Parameters<Redis['sendCommand']>): unknown {
      const send = () => super.sendCommand(sent, stream);
      if (sent.name === 'zadd' && added === undefined) {
        added = Promise.resolve(send());
        return added;
      }
      if (added === undefined || isDone || !sent.name.startsWith('eval')) return send();
      isDone = true;
      return added.then(meddle).then(send);
    }
  }
  return new Meddled(url);
}
