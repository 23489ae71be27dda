// The exponential, and the activations of LSTM cells and highways. Included inside a namespace, after its vectors.

// e to the x for |x| up to 80, with an error of about one unit in the last place: 2^n times a polynomial (Cephes).
ACTIVATION Vec exponential(Vec x) {
    const Vec n = round_to_even(mul(x, splat(1.44269504088896341f)));
    Vec r = fma(n, splat(-0.693359375f), x);
    r = fma(n, splat(2.12194440e-4f), r);
    Vec p = splat(1.9875691500e-4f);
    p = fma(p, r, splat(1.3981999507e-3f));
    p = fma(p, r, splat(8.3334519073e-3f));
    p = fma(p, r, splat(4.1665795894e-2f));
    p = fma(p, r, splat(1.6666665459e-1f));
    p = fma(p, r, splat(5.0000001201e-1f));
    p = add(fma(p, mul(r, r), r), splat(1.0f));
    return mul(p, two_to_the(n));
}

INLINE Vec bounded(Vec x, float bound) { return at_most(splat(bound), at_least(splat(-bound), x)); }

// e to the -x. Beyond 20, sigmoid and tanh differ from 0 or 1 by less than 2e-9; the product of three of these values
// does not overflow.
INLINE Vec decay(Vec x) { return exponential(bounded(sub(splat(0.0f), x), 20.0f)); }

ACTIVATION Vec sigmoid(Vec x) { return div(splat(1.0f), add(splat(1.0f), decay(x))); }

// σ(x) tanh(y), with one division.
ACTIVATION Vec sigmoid_times_tanh(Vec x, Vec y) {
    const Vec one = splat(1.0f), ey = decay(add(y, y));
    return div(sub(one, ey), mul(add(one, decay(x)), add(one, ey)));
}

// σ(f) c + σ(i) tanh(j), with one division by the common denominator.
ACTIVATION Vec next_cell(Vec i, Vec j, Vec f, Vec c) {
    const Vec one = splat(1.0f), ej = decay(add(j, j));
    const Vec forget = add(one, decay(f));
    const Vec remember = mul(add(one, decay(i)), add(one, ej));
    return div(fma(c, remember, mul(sub(one, ej), forget)), mul(forget, remember));
}

ACTIVATION Vec tanh_of(Vec x) {
    const Vec e = decay(add(x, x));
    return div(sub(splat(1.0f), e), add(splat(1.0f), e));
}

// Activate the four gates in place, save them for training, and return the next cell.
ACTIVATION Vec next_cell_in_training(Vec *gates, Vec c, float *saved) {
    gates[0] = sigmoid(gates[0]);
    gates[1] = tanh_of(gates[1]);
    gates[2] = sigmoid(gates[2]);
    gates[3] = sigmoid(gates[3]);
    UNROLL for (int v = 0; v < 4; ++v) store(saved + v * LANES, gates[v]);
    return fma(gates[2], c, mul(gates[0], gates[1]));
}

INLINE Vec relu(Vec x) { return at_least(splat(0.0f), x); }
