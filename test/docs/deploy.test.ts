import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';
import { parseCommandLine } from '../../src/cli/command.ts';
import { options } from '../../src/config/options.ts';
import { resolveSettings } from '../../src/config/resolve.ts';

const folder = join(import.meta.dirname, '../../deploy');
const configurations = ['haproxy.cfg', 'haproxy-prefix.cfg', 'nginx.conf'];

function read(file: string): string {
  return readFileSync(join(folder, file), 'utf8');
}

const probe = z.object({ httpGet: z.optional(z.object({ path: z.string(), port: z.string() })) });
const container = z.object({
  args: z.optional(z.array(z.string())),
  env: z.array(z.object({ name: z.string(), value: z.optional(z.string()) })),
  ports: z.array(z.object({ name: z.string(), containerPort: z.number() })),
  startupProbe: z.optional(probe),
  livenessProbe: probe,
  readinessProbe: probe,
  resources: z.object({ limits: z.object({ memory: z.string() }) }),
  volumeMounts: z.array(z.object({ name: z.string(), mountPath: z.string() })),
});
const labels = z.record(z.string(), z.string());
const workload = z.object({
  kind: z.enum(['StatefulSet', 'Deployment']),
  metadata: z.object({ name: z.string() }),
  spec: z.object({
    replicas: z.number(),
    serviceName: z.optional(z.string()),
    selector: z.object({ matchLabels: labels }),
    template: z.object({
      metadata: z.object({ labels }),
      spec: z.object({
        terminationGracePeriodSeconds: z.number(),
        enableServiceLinks: z.literal(false),
        containers: z.tuple([container]),
        volumes: z.array(z.looseObject({ name: z.string() })),
      }),
    }),
  }),
});

/** The objects of a manifest; a mistake in its YAML, such as a key given twice, is an error. */
function objectsIn(file: string): Record<string, unknown>[] {
  return parseAllDocuments(read(file), { strict: true, uniqueKeys: true }).flatMap((document) => {
    if ('errors' in document && [...document.errors, ...document.warnings].length > 0) {
      throw new Error(`${file}: ${[...document.errors, ...document.warnings].join('\n')}`);
    }
    const value: unknown = document.toJS();
    return value === null ? [] : [value as Record<string, unknown>];
  });
}

const manifests = readdirSync(join(folder, 'kubernetes')).map((name) => `kubernetes/${name}`);
const objects = manifests.flatMap(objectsIn);

function workloadOf(kind: 'StatefulSet' | 'Deployment'): z.infer<typeof workload> {
  return workload.parse(objects.find((object) => object['kind'] === kind));
}

const replicas = workloadOf('StatefulSet');
const balancer = workloadOf('Deployment');
const podOf = ({ spec }: z.infer<typeof workload>): z.infer<typeof workload>['spec']['template']['spec'] =>
  spec.template.spec;

describe('the manifests for Kubernetes', () => {
  const [server] = podOf(replicas).containers;
  const args = (server.args ?? []).map((arg) => arg.replace('$(POD_NAME)', `${replicas.metadata.name}-0`));
  const resolved = resolveSettings({ flags: parseCommandLine(args).flags, env: {}, cwd: '/', readFile: () => '{}' });

  it('start the server with flags that it accepts', () => {
    expect(resolved.problems).toEqual([]);
    expect(resolved.warnings).toEqual([]);
    expect(resolved.settings.transport).toBe('streamable-http');
    expect(resolved.settings.replicaId).toBe('cloakbrowser-mcp-0');
  });

  it('leave a pod the time that its drain may take', () => {
    const { drainDelayMs, drainTimeoutMs } = resolved.settings;
    expect(drainDelayMs).toBeLessThan(drainTimeoutMs);
    expect(podOf(replicas).terminationGracePeriodSeconds * 1000).toBeGreaterThanOrEqual(drainTimeoutMs + 20_000);
  });

  it('ask for the probes that the server has, on its port', () => {
    const asked = [server.startupProbe, server.livenessProbe, server.readinessProbe].map((each) => each?.httpGet);
    expect(asked.map((get) => get?.path)).toEqual(['/healthz', '/healthz', '/readyz']);
    expect(new Set(asked.map((get) => get?.port))).toEqual(new Set(['mcp']));
    expect(server.ports).toEqual([{ name: 'mcp', containerPort: resolved.settings.httpPort }]);
  });

  it('mount what the flags name, and nothing that is not there', () => {
    const { httpAuthTokenFile = '', cacheDir = '' } = resolved.settings;
    const mounts = server.volumeMounts.map(({ mountPath }) => mountPath);
    for (const path of [httpAuthTokenFile, cacheDir]) {
      expect(mounts.some((mount) => path.startsWith(`${mount}/`))).toBe(true);
    }
    for (const each of [replicas, balancer]) {
      const claimed = each === replicas ? ['cache'] : [];
      const volumes = [...podOf(each).volumes.map(({ name }) => name), ...claimed];
      expect(volumes.sort()).toEqual(
        podOf(each)
          .containers[0].volumeMounts.map(({ name }) => name)
          .sort(),
      );
    }
  });

  it('tell the balancer the name and the address of every replica', () => {
    const given = new Map(podOf(balancer).containers[0].env.map(({ name, value }) => [name, value]));
    for (let index = 0; index < replicas.spec.replicas; index += 1) {
      const name = `${replicas.metadata.name}-${index}`;
      expect(given.get(`MCP_REPLICA_${index + 1}_ID`)).toBe(name);
      expect(given.get(`MCP_REPLICA_${index + 1}`)).toMatch(
        new RegExp(`^${name}\\.${replicas.spec.serviceName ?? '?'}\\.\\$\\(NAMESPACE\\)\\.svc\\..*:3000$`),
      );
    }
    const wanted = new Set([...read('haproxy-prefix.cfg').matchAll(/"\$(MCP_\w+)"/g)].map(([, name]) => name));
    expect(new Set([...given.keys()].filter((name) => name.startsWith('MCP_')))).toEqual(wanted);
    expect(resolved.settings.httpAllowedHosts).toEqual([given.get('MCP_HOST')]);
  });

  it('keep the addresses of replicas that are not ready, since those have sessions', () => {
    const service = objects.find((object) => object['kind'] === 'Service' && JSON.stringify(object).includes('None'));
    expect(service?.['spec']).toMatchObject({ clusterIP: 'None', publishNotReadyAddresses: true });
  });

  it.each([replicas, balancer])('select the pods that they make: $kind', ({ spec }) => {
    expect(spec.template.metadata.labels).toMatchObject(spec.selector.matchLabels);
  });

  it('are all applied together', () => {
    for (const manifest of manifests) expect(read('kustomization.yaml')).toContain(`- ${manifest}\n`);
  });
});

describe('what is said of deploying', () => {
  const files = [...configurations, ...manifests, 'README.md'];
  const flags = new Set(options.flatMap((option) => option.flags.map((flag) => `--${flag}`)));

  it.each([...configurations, 'README.md'])('names only flags that exist: %s', (file) => {
    const named = [...read(file).matchAll(/(?<![\w-])--(?:http|drain|replica|session)[a-z-]*/g)].map(([flag]) => flag);
    expect(named.filter((flag) => !flags.has(flag))).toEqual([]);
  });

  it('explains every variable that a configuration takes', () => {
    const taken = new Set(files.flatMap((file) => read(file).match(/(?<![A-Z_])MCP_[A-Z0-9_]+/g) ?? []));
    const page = read('README.md');
    expect([...taken].filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
  });
});
