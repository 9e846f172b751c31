import { readFile } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { defaultOtlpEndpoint } from 'millrace/internals';

let text: string;
let services: ReadonlyMap<string, string>;

beforeAll(async () => {
  text = await readFile(new URL('../../docker-compose.yml', import.meta.url), 'utf8');
  const block = /^services:\n((?: {2}.*\n|\n)+)/m.exec(text)?.[1] ?? '';
  const parts = block.split(/^ {2}(\w+):\n/m).slice(1);
  services = new Map(parts.flatMap((name, index) => (index % 2 === 0 ? [[name, parts[index + 1] ?? '']] : [])));
});

/** The published ports of a service: [address, host port, container port]. */
function portsOf(name: string): readonly (readonly string[])[] {
  return [...(services.get(name) ?? '').matchAll(/^ {6}- ["']([^:]+):(.+):(\d+)["']/gm)].map((match) => match.slice(1));
}

describe('docker-compose.yml', () => {
  it('S1-108 has Redis and Jaeger, and publishes OTLP where spans go by default', () => {
    expect([...services.keys()]).toEqual(['redis', 'jaeger', 'litellm', 'gateway', 'worker']);
    const { hostname, port } = new URL(defaultOtlpEndpoint);
    expect(hostname).toBe('localhost');
    expect(portsOf('jaeger')).toContainEqual(['127.0.0.1', port, '4318']);
    expect(portsOf('redis').map(([, , inside]) => inside)).toEqual(['6379']);
    expect(services.get('redis')).toMatch(/"--appendonly", "yes".*"--maxmemory-policy", "noeviction"/);
  });

  it('publishes on loopback only, pins every image, and checks the health of every service', () => {
    for (const [name, service] of services) {
      expect(portsOf(name).map(([address]) => address)).toEqual(portsOf(name).map(() => '127.0.0.1'));
      expect(service).toMatch(/^ {4}image: [\w./-]+:v?\d+\.\d+\.\d+(-alpine)?$/m);
      expect(service).toMatch(/^ {4}healthcheck:$/m);
    }
  });

  it('explains each variable that it reads', () => {
    const [comment = ''] = text.split(/^name:/m);
    const names = [...text.matchAll(/\$\{(\w+)/g)].map((match) => match[1]);
    expect(names.length).toBeGreaterThan(0);
    for (const name of names) expect(comment).toMatch(new RegExp(`^# {3}${name}\\b`, 'm'));
  });
});
