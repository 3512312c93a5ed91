"""Distributions against SciPy, integration and sampling; initialization; where gradients go in each architecture."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from trimtab.envs import Continuous, Discrete, MultiBinary, MultiDiscrete
from trimtab.nets import impala, nature
from trimtab.nets.agent import Agent, distribution_for
from trimtab.nets.families import choose_network, parameters, widths
from trimtab.nets.heads import Bernoullis, Categorical, Gaussian, MultiCategorical, clip_action
from trimtab.nets.mlp import Dense, product

CATEGORICAL = Categorical(5)
CHOICES = MultiCategorical((2, 3, 4))
SWITCHES = Bernoullis(3)
KEY = jax.random.key(11)
GAUSSIAN = Gaussian((-1.0, -2.0), (1.0, 2.0))
LOGITS = jnp.array([[0.5, -1.0, 2.0, 0.0, 1.0], [-1.0, 0.3, 0.2, 1.4, -2.0]])
CHOICE_LOGITS = jnp.array(
    [[0.5, -1.0, 2.0, 0.0, 1.0, 0.1, 0.2, -0.7, 1.5], [-1.0, 0.3, 0.2, 1.4, -2.0, 0.6, 0, 1, -0.3]]
)
LOG_ODDS = jnp.array([[0.5, -1.0, 2.0], [-0.3, 0.2, 0.7]])
MEANS_AND_LOGS = jnp.array([[0.5, -1.0, 0.3, -0.7], [-0.2, 0.4, -0.5, 0.6]])


def test_categorical_equals_scipy():
    p = special.softmax(np.asarray(LOGITS, np.float64), axis=1)
    for action in range(5):
        np.testing.assert_allclose(CATEGORICAL.logp(LOGITS, jnp.full(2, action)), np.log(p[:, action]), rtol=1e-5)
    np.testing.assert_allclose(CATEGORICAL.entropy(LOGITS), stats.entropy(p, axis=1), rtol=1e-5)
    np.testing.assert_allclose(CATEGORICAL.kl(LOGITS, LOGITS[::-1]), stats.entropy(p, p[::-1], axis=1), rtol=1e-5)
    np.testing.assert_allclose(CATEGORICAL.kl(LOGITS, LOGITS), 0.0, atol=1e-6)


def test_categorical_samples_with_its_probabilities():
    noise = CATEGORICAL.noise(jax.random.key(0), (40_000,))
    actions = CATEGORICAL.sample(jnp.broadcast_to(LOGITS[0], (40_000, 5)), noise)
    shares = np.bincount(actions, minlength=5) / 40_000
    np.testing.assert_allclose(shares, special.softmax(LOGITS[0]), atol=0.01)
    assert CATEGORICAL.mode(LOGITS).tolist() == [2, 3]


def test_gaussian_equals_scipy():
    mean, std = np.asarray(MEANS_AND_LOGS[:, :2]), np.exp(MEANS_AND_LOGS[:, 2:])
    action = jnp.array([[0.1, -0.4], [3.0, 1.0]])
    np.testing.assert_allclose(
        GAUSSIAN.logp(MEANS_AND_LOGS, action), stats.norm(mean, std).logpdf(action).sum(1), rtol=1e-5
    )
    np.testing.assert_allclose(GAUSSIAN.entropy(MEANS_AND_LOGS), stats.norm(mean, std).entropy().sum(1), rtol=1e-5)


def test_gaussian_kl_equals_numeric_integration():
    one = Gaussian((-1.0,), (1.0,))
    p, q = jnp.array([0.5, -0.3]), jnp.array([-0.4, 0.5])
    log = lambda params, x: stats.norm(params[0], np.exp(params[1])).logpdf(x)
    area, _ = integrate.quad(lambda x: np.exp(log(p, x)) * (log(p, x) - log(q, x)), -12, 12)
    assert float(one.kl(p, q)) == pytest.approx(area, rel=1e-4)


def every_action(dist) -> np.ndarray:
    sizes = dist.sizes if isinstance(dist, MultiCategorical) else (2,) * dist.switches
    return np.stack([grid.reshape(-1) for grid in np.meshgrid(*map(np.arange, sizes), indexing="ij")], axis=1)


def chance(dist, params: np.ndarray, action: np.ndarray) -> float:
    """The probability of one action, number by number."""
    if isinstance(dist, Bernoullis):
        return float(np.prod([special.expit(x) if a else 1 - special.expit(x) for x, a in zip(params, action)]))
    parts = np.split(params, np.cumsum(dist.sizes)[:-1])
    return float(np.prod([special.softmax(part)[a] for part, a in zip(parts, action)]))


@pytest.mark.parametrize("dist, params", [(CHOICES, CHOICE_LOGITS), (SWITCHES, LOG_ODDS)])
def test_several_choices_at_once_equal_their_enumeration(dist, params):
    actions = every_action(dist)
    p, q = (np.array([chance(dist, np.asarray(row, np.float64), a) for a in actions]) for row in params)
    assert p.sum() == pytest.approx(1.0) and dist.num_params == params.shape[1]
    spread = jnp.broadcast_to(params[0], (len(actions), params.shape[1]))
    np.testing.assert_allclose(dist.logp(spread, jnp.asarray(actions, jnp.int32)), np.log(p), rtol=1e-5, atol=1e-6)
    assert float(dist.entropy(params[0])) == pytest.approx(float(-(p * np.log(p)).sum()), rel=1e-5)
    assert float(dist.kl(params[0], params[1])) == pytest.approx(float((p * np.log(p / q)).sum()), rel=1e-4)
    assert dist.mode(params[0]).tolist() == actions[p.argmax()].tolist()
    drawn = np.asarray(dist.sample(jnp.broadcast_to(params[0], (40_000, params.shape[1])), dist.noise(KEY, (40_000,))))
    for action, share in zip(actions, p):
        assert (drawn == action).all(1).mean() == pytest.approx(share, abs=0.01)
    anyhow = np.asarray(dist.uniform(KEY, 20_000))
    for action in actions:
        assert (anyhow == action).all(1).mean() == pytest.approx(1 / len(actions), abs=0.01)


@pytest.mark.parametrize("dist, params", [(CATEGORICAL, LOGITS), (GAUSSIAN, MEANS_AND_LOGS)])
def test_entropy_and_kl_are_the_means_of_sampled_log_probabilities(dist, params):
    p, q = (jnp.broadcast_to(params[i], (50_000, params.shape[1])) for i in (0, 1))
    actions = dist.sample(p, dist.noise(jax.random.key(1), (50_000,)))
    assert float(dist.entropy(p[0])) == pytest.approx(-float(dist.logp(p, actions).mean()), abs=0.03)
    sampled = float((dist.logp(p, actions) - dist.logp(q, actions)).mean())
    assert float(dist.kl(p[0], q[0])) == pytest.approx(sampled, rel=0.03)


def test_gaussian_samples_have_its_mean_and_deviation_and_are_not_clipped():
    draws = GAUSSIAN.sample(
        jnp.broadcast_to(MEANS_AND_LOGS[0], (40_000, 4)), GAUSSIAN.noise(jax.random.key(2), (40_000,))
    )
    np.testing.assert_allclose(draws.mean(0), MEANS_AND_LOGS[0, :2], atol=0.03)
    np.testing.assert_allclose(draws.std(0), np.exp(MEANS_AND_LOGS[0, 2:]), rtol=0.03)
    assert float(draws.max()) > 1.0
    clipped = clip_action(GAUSSIAN, draws)
    assert float(clipped[:, 0].max()) == 1.0 and float(clipped[:, 1].min()) == -2.0


@pytest.mark.parametrize("inputs, outputs", [(3, 64), (3, 2), (16, 1), (16, 8), (16, 9)])
def test_products_written_out_and_their_gradients_equal_the_matrix_product(inputs, outputs):
    x, weight, up = (
        jax.random.normal(jax.random.key(k), shape)
        for k, shape in enumerate([(7, inputs), (inputs, outputs), (7, outputs)])
    )
    batched = lambda x, weight: jax.vmap(product, in_axes=(0, None))(x, weight)
    value, pull = jax.vjp(batched, x, weight)
    wanted, wanted_pull = jax.vjp(jnp.matmul, x, weight)
    np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6)
    for got, want in zip(pull(up), wanted_pull(up)):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("gain", [2**0.5, 1.0, 0.01])
def test_dense_layers_start_orthogonal_with_their_gain(gain):
    weight = np.asarray(Dense(jax.random.key(0), 20, 6, gain).weight)
    np.testing.assert_allclose(weight.T @ weight, gain**2 * np.eye(6), atol=1e-5)


IMAGES = jax.random.normal(jax.random.key(0), (5, 6, 8, 3))
KERNEL = jax.random.normal(jax.random.key(1), (3, 3, 3, 4))


def library_convolution(x, weight):
    return jax.lax.conv_general_dilated(x, weight, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def library_pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


def agree(ours, library, *arguments):
    """Values and all gradients of a random weighting of the outputs."""
    shape = library(*arguments).shape
    weighting = jax.random.normal(jax.random.key(2), shape)
    np.testing.assert_allclose(ours(*arguments), library(*arguments), rtol=1e-4, atol=1e-4)
    numbers = tuple(range(len(arguments)))
    gradients = [
        jax.jit(jax.grad(lambda *a, f=f: (f(*a) * weighting).sum(), numbers))(*arguments) for f in (ours, library)
    ]
    for mine, theirs in zip(*gradients):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("samples", [5, 1])
@pytest.mark.parametrize("size", [(6, 8), (5, 7), (1, 2)])
def test_convolution_and_its_gradients_equal_the_library(samples, size):
    agree(impala.convolve, library_convolution, IMAGES[:samples, : size[0], : size[1]], KERNEL)


@pytest.mark.parametrize("size", [(6, 8), (5, 7), (6, 7), (1, 1)])
def test_pooling_and_its_gradient_equal_the_library_also_where_pixels_are_equal(size):
    images = IMAGES[:, : size[0], : size[1]]
    agree(impala.max_pool, library_pool, images)
    agree(impala.max_pool, library_pool, jnp.round(images))


def test_the_first_convolution_with_its_pooling_equals_the_library():
    whole = lambda x, weight: library_pool(library_convolution(x, weight))
    agree(impala._convolve_and_pool, whole, IMAGES, KERNEL)
    flat = jnp.ones_like(IMAGES)  # ties everywhere
    ours, theirs = (jax.grad(lambda w, f=f: f(flat, w).sum())(KERNEL) for f in (impala._convolve_and_pool, whole))
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_accelerators_get_the_library_and_the_same_numbers(monkeypatch):
    net = impala.Impala(jax.random.key(0), (6, 8, 3), (4, 5), (7,), 1.0)
    on_cpu = jax.jit(jax.grad(lambda net: (net(IMAGES) ** 2).sum()))(net)
    monkeypatch.setattr(impala, "_on_cpu", lambda: False)
    program = str(jax.make_jaxpr(net)(IMAGES))
    assert "custom_vjp" not in program and "reduce_window" in program
    elsewhere = jax.jit(jax.grad(lambda net: (net(IMAGES) ** 2).sum()))(net)
    for a, b in zip(jax.tree.leaves(on_cpu), jax.tree.leaves(elsewhere)):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_per_sample_gradients_of_the_image_network_sum_to_the_batch_gradient():
    net = impala.Impala(jax.random.key(0), (6, 8, 3), (4, 5), (7,), 1.0)
    of_one = lambda net, x: (net(x[None]) ** 2).sum()
    each = jax.jit(jax.vmap(jax.grad(of_one), in_axes=(None, 0)))(net, IMAGES)
    whole = jax.jit(jax.grad(lambda net: (net(IMAGES) ** 2).sum()))(net)
    for rows, total in zip(jax.tree.leaves(each), jax.tree.leaves(whole)):
        np.testing.assert_allclose(rows.sum(0), total, rtol=1e-3, atol=1e-4)
    first = jax.jit(jax.grad(of_one))(net, IMAGES[2])
    for rows, one in zip(jax.tree.leaves(each), jax.tree.leaves(first)):
        np.testing.assert_allclose(rows[2], one, rtol=1e-3, atol=1e-4)


def test_large_batches_go_through_in_groups_with_the_same_result(monkeypatch):
    net = impala.Impala(jax.random.key(0), (6, 8, 3), (4,), (7,), 1.0)
    loss = lambda net: (net(IMAGES) ** 2).sum()
    whole, at_once = net(IMAGES), jax.jit(jax.grad(loss))(net)
    monkeypatch.setattr(impala, "CPU_GROUP", 2)
    np.testing.assert_allclose(net(IMAGES), whole, rtol=1e-5, atol=1e-6)
    for a, b in zip(jax.tree.leaves(jax.jit(jax.grad(lambda net: loss(net)))(net)), jax.tree.leaves(at_once)):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def make(arch="dual", dist=CATEGORICAL, **options):
    options = {"hidden_sizes": (16, 6)} | options
    return Agent((3,), "float32", dist, arch=arch, **options)


def test_heads_start_with_the_gains_of_their_roles():
    agent = make(auxiliary=True)
    params = agent.init(jax.random.key(0))
    net, norm = agent.policy_net(params.policy), lambda w: np.linalg.svd(np.asarray(w))[1]
    np.testing.assert_allclose(norm(net.trunk.layers[1].weight), 2**0.5, rtol=1e-4)
    np.testing.assert_allclose(norm(net.head.weight), 0.01, rtol=1e-4)
    np.testing.assert_allclose(norm(net.auxiliary.weight), 1.0, rtol=1e-4)


@pytest.mark.parametrize("arch", ["dual", "shared", "detach"])
@pytest.mark.parametrize("critic, auxiliary, dist", [(True, False, CATEGORICAL), (True, True, GAUSSIAN)])
def test_layouts_name_every_parameter_once(arch, critic, auxiliary, dist):
    agent = make(arch, dist, critic=critic, auxiliary=auxiliary)
    params = agent.init(jax.random.key(0))
    for vector, layout in ((params.policy, agent.policy_layout), (params.value, agent.value_layout)):
        assert vector.ndim == 1 and vector.dtype == jnp.float32
        assert vector.size == sum(int(np.prod(shape)) for shape in layout.values())
    assert ("log_std" in agent.policy_layout) == isinstance(dist, Gaussian)
    assert any(name.startswith("auxiliary") for name in agent.policy_layout) == auxiliary
    assert any(name.startswith("trunk") for name in agent.value_layout) == (arch == "dual")
    first = agent.policy_net(params.policy).trunk.layers[0].weight
    assert agent.policy_layout["trunk.layers[0].weight"] == first.shape


def test_an_agent_without_a_critic_has_no_value_parameters():
    assert make(critic=False).init(jax.random.key(0)).value.size == 0


OBS = jax.random.normal(jax.random.key(9), (7, 3))


@pytest.mark.parametrize("arch", ["dual", "shared", "detach"])
def test_both_equals_policy_and_value(arch):
    agent = make(arch)
    params = agent.init(jax.random.key(0))
    dist, value = agent.both(params, OBS)
    np.testing.assert_allclose(dist, agent.policy(params.policy, OBS), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(value, agent.value(params, OBS), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("arch, reaches", [("dual", False), ("shared", True), ("detach", False)])
def test_value_loss_reaches_the_policy_trunk_only_when_it_is_shared(arch, reaches):
    agent = make(arch)
    params = agent.init(jax.random.key(0))
    gradient = jax.grad(lambda p: (agent.both(p, OBS)[1] ** 2).sum())(params)
    assert bool(jnp.any(gradient.policy != 0)) == reaches
    assert bool(jnp.any(gradient.value != 0))


def test_policy_and_auxiliary_share_the_trunk():
    agent = make(auxiliary=True)
    params = agent.init(jax.random.key(0))
    dist, aux = agent.policy_and_auxiliary(params.policy, OBS)
    np.testing.assert_allclose(dist, agent.policy(params.policy, OBS), rtol=1e-5, atol=1e-6)
    gradient = jax.grad(lambda p: agent.policy_and_auxiliary(p, OBS)[1].sum())(params.policy)
    trunk = agent.policy_net(gradient).trunk
    assert all(bool(jnp.any(layer.weight != 0)) for layer in trunk.layers) and aux.shape == (7,)


def test_initial_deviation_is_the_one_asked_for():
    agent = make(dist=GAUSSIAN, log_std_init=-1.5)
    dist = agent.policy(agent.init(jax.random.key(0)).policy, OBS)
    np.testing.assert_allclose(dist[:, 2:], -1.5)


def test_images_are_scaled_to_one_by_the_network():
    bytes_, floats = (
        Agent((8, 8, 3), dtype, CATEGORICAL, network="impala", impala_channels=(4,), hidden_sizes=(6,))
        for dtype in ("uint8", "float32")
    )
    params = bytes_.init(jax.random.key(0))
    image = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3)).astype(np.uint8)
    scaled = jnp.asarray(image, jnp.float32) / 255
    np.testing.assert_allclose(
        bytes_.policy(params.policy, jnp.asarray(image)), floats.policy(params.policy, scaled), rtol=1e-4, atol=1e-6
    )


def test_action_spaces_have_their_distributions():
    assert distribution_for(Discrete(3)) == Categorical(3)
    assert distribution_for(Continuous((-1.0,), (2.0,))) == Gaussian((-1.0,), (2.0,))
    assert distribution_for(MultiDiscrete((2, 3))) == MultiCategorical((2, 3))
    assert distribution_for(MultiBinary(4)) == Bernoullis(4)


# The Nature network ----------------------------------------------------------------------------------------

SCREENS = np.random.default_rng(3).integers(0, 256, (2, 38, 44, 4)).astype(np.uint8)  # sizes that leave a rest


def loop_convolution(x: np.ndarray, kernel: np.ndarray, stride: int) -> np.ndarray:
    """Pixel by pixel, in NumPy."""
    size = kernel.shape[0]
    height, width = ((n - size) // stride + 1 for n in x.shape[1:3])
    out = np.zeros((len(x), height, width, kernel.shape[3]))
    for i in range(height):
        for j in range(width):
            patch = x[:, i * stride : i * stride + size, j * stride : j * stride + size]
            out[:, i, j] = np.tensordot(patch, kernel, 3)
    return out


@pytest.fixture(scope="module")
def nature_net():
    net = nature.Nature(jax.random.key(0), SCREENS.shape[1:], (16,), 1 / 255)
    return jax.tree.map(lambda x: x + 0.05 * jax.random.normal(jax.random.key(1), x.shape), net)


def test_the_nature_network_equals_a_loop_layer_by_layer(nature_net):
    x = SCREENS / 255.0
    assert [(c.kernel.shape[0], c.stride, c.kernel.shape[3]) for c in nature_net.convolutions] == [
        (8, 4, 32),
        (4, 2, 64),
        (3, 1, 64),
    ]
    for convolution in nature_net.convolutions:
        truth = loop_convolution(x, np.asarray(convolution.kernel, np.float64), convolution.stride)
        truth = np.maximum(truth + np.asarray(convolution.bias), 0)
        np.testing.assert_allclose(jax.nn.relu(convolution(jnp.asarray(x, jnp.float32))), truth, rtol=1e-3, atol=1e-4)
        x = truth
    for layer in nature_net.layers:
        x = np.maximum(x.reshape(2, -1) @ np.asarray(layer.weight) + np.asarray(layer.bias), 0)
    np.testing.assert_allclose(nature_net(jnp.asarray(SCREENS)), x, rtol=1e-3, atol=1e-4)


def test_the_nature_network_equals_pytorch_with_its_gradients(nature_net):
    torch = pytest.importorskip("torch")
    x, modules = torch.tensor(SCREENS).permute(0, 3, 1, 2) / 255.0, []
    for convolution in nature_net.convolutions:
        size, _, inputs, outputs = convolution.kernel.shape
        module = torch.nn.Conv2d(inputs, outputs, size, convolution.stride)
        module.weight.data = torch.tensor(np.asarray(convolution.kernel)).permute(3, 2, 0, 1).contiguous()
        module.bias.data = torch.tensor(np.asarray(convolution.bias))
        modules.append(module)
        x = torch.relu(module(x))
    dense = nature_net.layers[0]
    x = x.permute(0, 2, 3, 1).reshape(2, -1)  # our order: row, column, channel
    x = torch.relu(x @ torch.tensor(np.asarray(dense.weight)) + torch.tensor(np.asarray(dense.bias)))
    np.testing.assert_allclose(nature_net(jnp.asarray(SCREENS)), x.detach(), rtol=1e-3, atol=1e-4)
    (x**2).sum().backward()
    gradient = jax.grad(lambda net: (net(jnp.asarray(SCREENS)) ** 2).sum())(nature_net)
    for ours, module in zip(gradient.convolutions, modules):
        theirs = module.weight.grad.permute(2, 3, 1, 0).numpy()
        np.testing.assert_allclose(ours.kernel, theirs, rtol=1e-3, atol=1e-3 * np.abs(theirs).max())


def test_many_images_go_in_groups_with_the_same_result(nature_net, monkeypatch):
    whole = nature_net(jnp.asarray(SCREENS).repeat(3, 0))
    monkeypatch.setattr(nature, "GROUP", 4)
    np.testing.assert_allclose(nature_net(jnp.asarray(SCREENS).repeat(3, 0)), whole, rtol=1e-5, atol=1e-6)


def test_the_network_follows_from_the_observation():
    assert choose_network("auto", (84, 84, 4)) == choose_network("auto", (36, 96, 3)) == "nature"
    assert choose_network("auto", (35, 84, 1)) == choose_network("auto", (10, 10, 4)) == "mlp"
    assert choose_network("auto", (17,)) == choose_network("mlp", (84, 84, 4)) == "mlp"
    assert widths("nature", None) == (512,) and widths("mlp", None) == (64, 64) and widths("mlp", (8,)) == (8,)


def test_policy_and_value_see_their_parts():
    agent = Agent((6,), "float32", CATEGORICAL, hidden_sizes=(8,), actor_parts=((0, 2), (5, 6)), critic_parts=((1, 4),))
    params = agent.init(jax.random.key(0))
    obs = jax.random.normal(jax.random.key(1), (1, 6))
    policy = jax.jacobian(lambda x: agent.policy(params.policy, x)[0])(obs)[:, 0]
    value = jax.grad(lambda x: agent.value(params, x)[0])(obs)[0]
    assert (np.abs(policy).max(0) > 0).tolist() == [True, True, False, False, False, True]
    assert (value != 0).tolist() == [False, True, True, True, False, False]
    with pytest.raises(ValueError, match="dual"):
        Agent((6,), "float32", CATEGORICAL, arch="shared", actor_parts=((0, 2),))


def test_small_images_are_numbers_from_0_to_1_to_a_dense_network():
    agent = Agent((4, 4, 2), "uint8", CATEGORICAL, hidden_sizes=(8,))
    params = agent.init(jax.random.key(0))
    image = np.random.default_rng(0).integers(0, 256, (3, 4, 4, 2)).astype(np.uint8)
    floats = jnp.asarray(image, jnp.float32) / 255
    plain = Agent((4, 4, 2), "float32", CATEGORICAL, hidden_sizes=(8,))
    np.testing.assert_allclose(
        agent.policy(params.policy, jnp.asarray(image)), plain.policy(params.policy, floats), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    "shape, options",
    [
        ((7,), {"dist": GAUSSIAN}),
        ((7,), {"arch": "shared", "auxiliary": True, "hidden_sizes": (5,)}),
        ((7,), {"critic": False}),
        ((6,), {"actor_parts": ((0, 2),), "critic_parts": ((1, 4),)}),
        ((40, 44, 3), {"network": "nature", "arch": "shared"}),
        ((9, 8, 3), {"network": "impala", "impala_channels": (4, 6)}),
    ],
)
def test_parameters_are_counted_without_making_them(shape, options):
    dist, network = options.pop("dist", CATEGORICAL), options.get("network", "mlp")
    hidden = options.pop("hidden_sizes", None)
    agent = Agent(shape, "float32", dist, hidden_sizes=widths(network, hidden), **options)
    made = sum(int(np.prod(s)) for layout in (agent.policy_layout, agent.value_layout) for s in layout.values())
    seen = tuple(sum(b - a for a, b in options.pop(f"{who}_parts", ())) or None for who in ("actor", "critic"))
    free = dist.d if isinstance(dist, Gaussian) else 0
    options.pop("network", None)
    assert parameters(network, shape, dist.num_outputs, hidden, free=free, seen=seen, **options) == made


def test_small_distances_between_many_switches_are_not_rounded_away():
    many = Bernoullis(64)
    p = jnp.asarray(np.random.default_rng(0).normal(size=(200, 64)), jnp.float32)
    assert float(jnp.abs(many.kl(p, p * (1 + 1e-6))).max()) < 2e-6


def test_random_actions_stay_within_reach_where_a_box_has_no_bound():
    inf = float("inf")
    box = Gaussian((-inf, -inf, 3.0, -2.0), (inf, 7.0, inf, 5.0))
    drawn = np.asarray(box.uniform(jax.random.key(0), 500))
    np.testing.assert_allclose(drawn.min(0), [-1.0, 6.0, 3.0, -2.0], atol=0.1)
    np.testing.assert_allclose(drawn.max(0), [1.0, 7.0, 4.0, 5.0], atol=0.1)
