// SPDX-License-Identifier: GPL-2.0-only
/*
 * Energy counters for a machine without any, for tests/tests/guest_powercap.rs. Registers the zones package-0 and dram in the
 * kernel's powercap framework, with RAPL's control type, range and resolution. Their energy follows a known formula:
 *
 *	idle_mw * time + busy_mw * time of busy CPUs	(dram: an eighth)
 *
 * Busy time is the monotonic clock minus the idle time of each CPU, as the kernel accounts it at its tick (NO_HZ). mpwatch measures
 * busy time in another way, by tracepoints.
 *
 * /proc/mpwatch_powercap has the true energy, a line per value that was read from an energy_uj: zone, time (ns), energy (uJ) since
 * the module was loaded, and the part above idle. These counters do not wrap.
 */
#include <linux/cpumask.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/powercap.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/tick.h>

/* The resolution of most Intel processors: 2^-14 J, which the kernel's RAPL driver truncates to nanojoules. */
#define COUNT_PJ     61035000ULL
#define MAX_READINGS 4096

static unsigned long long idle_mw = 5000;
module_param(idle_mw, ullong, 0444);
MODULE_PARM_DESC(idle_mw, "Idle power of the package, milliwatts");
static unsigned long long busy_mw = 30000;
module_param(busy_mw, ullong, 0444);
MODULE_PARM_DESC(busy_mw, "Additional power of the package for each busy CPU, milliwatts");
static unsigned long long wrap_mj;
module_param(wrap_mj, ullong, 0444);
MODULE_PARM_DESC(wrap_mj, "Energy of the package until the counters wrap, millijoules");

struct counter {
	struct powercap_zone powercap;
	const char *name;
	/* The zone's share of the package's power: one divided by this. */
	u32 divisor;
};

struct reading {
	const struct counter *counter;
	u64 time_ns;
	u64 energy_pj;
	u64 active_pj;
};

static struct powercap_control_type *control_type;
static struct counter package = {.name = "package-0", .divisor = 1};
static struct counter dram = {.name = "dram", .divisor = 8};

static u64 start_ns;
static u64 start_idle_us;

static DEFINE_MUTEX(readings_lock);
static struct reading readings[MAX_READINGS];
static unsigned int nr_readings;

static u64 idle_us(void)
{
	u64 sum = 0;
	int cpu;

	for_each_online_cpu(cpu)
		sum += get_cpu_idle_time_us(cpu, NULL) + get_cpu_iowait_time_us(cpu, NULL);
	return sum;
}

static struct reading measure(const struct counter *counter)
{
	struct reading now = {.counter = counter, .time_ns = ktime_get_ns()};
	u64 elapsed_ns = now.time_ns - start_ns;
	u64 available_ns = elapsed_ns * num_online_cpus();
	u64 busy_ns = available_ns - min(available_ns, (idle_us() - start_idle_us) * NSEC_PER_USEC);

	/* Milliwatts times nanoseconds are picojoules. */
	now.active_pj = div_u64(busy_mw * busy_ns, counter->divisor);
	now.energy_pj = div_u64(idle_mw * elapsed_ns, counter->divisor) + now.active_pj;
	return now;
}

static int get_energy_uj(struct powercap_zone *powercap, u64 *energy_uj)
{
	const struct counter *counter = container_of(powercap, struct counter, powercap);
	/* Counts until the wrap. */
	u32 left = div64_u64(wrap_mj * NSEC_PER_SEC, COUNT_PJ * counter->divisor);
	struct reading now;

	mutex_lock(&readings_lock);
	now = measure(counter);
	if (nr_readings < MAX_READINGS)
		readings[nr_readings++] = now;
	mutex_unlock(&readings_lock);
	/* RAPL's register has 32 bits. */
	*energy_uj = (u32)(div64_u64(now.energy_pj, COUNT_PJ) - left) * COUNT_PJ / USEC_PER_SEC;
	return 0;
}

static int get_max_energy_range_uj(struct powercap_zone *powercap, u64 *max_uj)
{
	*max_uj = U32_MAX * COUNT_PJ / USEC_PER_SEC;
	return 0;
}

/* The framework requires these functions, also of zones without power limits that it did not allocate. */
static int set_limit(struct powercap_zone *powercap, int constraint, u64 value)
{
	return -EOPNOTSUPP;
}

static int get_limit(struct powercap_zone *powercap, int constraint, u64 *value)
{
	return -EOPNOTSUPP;
}

static const struct powercap_zone_constraint_ops no_limits = {
	.set_power_limit_uw = set_limit,
	.get_power_limit_uw = get_limit,
	.set_time_window_us = set_limit,
	.get_time_window_us = get_limit,
};

static int release(struct powercap_zone *powercap)
{
	return 0;
}

static const struct powercap_zone_ops zone_ops = {
	.get_energy_uj = get_energy_uj,
	.get_max_energy_range_uj = get_max_energy_range_uj,
	.release = release,
};

static int show_truth(struct seq_file *file, void *unused)
{
	unsigned int i;

	mutex_lock(&readings_lock);
	for (i = 0; i < nr_readings; i++)
		seq_printf(file, "%s %llu %llu %llu\n", readings[i].counter->name,
			   readings[i].time_ns, div_u64(readings[i].energy_pj, USEC_PER_SEC),
			   div_u64(readings[i].active_pj, USEC_PER_SEC));
	mutex_unlock(&readings_lock);
	return nr_readings < MAX_READINGS ? 0 : -ENOSPC;
}

static int register_zone(struct counter *counter, struct counter *parent)
{
	return PTR_ERR_OR_ZERO(powercap_register_zone(
		&counter->powercap, control_type, counter->name, parent ? &parent->powercap : NULL,
		&zone_ops, 0, &no_limits));
}

static int __init powercap_init(void)
{
	int error;

	/* Without NO_HZ the kernel has no exact idle time. */
	if (get_cpu_idle_time_us(raw_smp_processor_id(), NULL) == -1ULL)
		return -ENODEV;
	start_ns = ktime_get_ns();
	start_idle_us = idle_us();
	control_type = powercap_register_control_type(NULL, "intel-rapl", NULL);
	if (IS_ERR(control_type))
		return PTR_ERR(control_type);
	error = register_zone(&package, NULL);
	if (error)
		goto no_package;
	error = register_zone(&dram, &package);
	if (error)
		goto no_dram;
	error = -ENOMEM;
	if (!proc_create_single("mpwatch_powercap", 0400, NULL, show_truth))
		goto no_truth;
	return 0;

no_truth:
	powercap_unregister_zone(control_type, &dram.powercap);
no_dram:
	powercap_unregister_zone(control_type, &package.powercap);
no_package:
	powercap_unregister_control_type(control_type);
	return error;
}

static void __exit powercap_exit(void)
{
	remove_proc_entry("mpwatch_powercap", NULL);
	powercap_unregister_zone(control_type, &dram.powercap);
	powercap_unregister_zone(control_type, &package.powercap);
	powercap_unregister_control_type(control_type);
}

module_init(powercap_init);
module_exit(powercap_exit);
MODULE_DESCRIPTION("Simulated energy counters for mpwatch's tests");
MODULE_LICENSE("GPL");
