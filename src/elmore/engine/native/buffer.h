// Scratch memory of a thread. Included inside a namespace, after `memory.h`.

// A thread keeps its buffers from call to call, and a buffer only grows: requesting megabytes from the system at each
// call would cost as much as a step of a small layer.
template <class T>
class Buffer {
   public:
    Buffer() = default;
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    ~Buffer() { release(data_); }

    // Make room for `count` values; old values may be lost. False if memory ran out.
    bool reserve(int64_t count) {
        if (count <= size_) return true;
        release(data_);
        size_ = 0;
        data_ = static_cast<T *>(allocate(static_cast<size_t>(count) * sizeof(T)));
        if (data_ == nullptr) return false;
        size_ = count;
        return true;
    }

    T *data() const { return data_; }

   private:
    T *data_ = nullptr;
    int64_t size_ = 0;
};
